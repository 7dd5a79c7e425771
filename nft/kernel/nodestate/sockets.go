package nodestate

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// Sockets implements [simulate.NodeState]. Sockets of IPv6 may receive packets of IPv4, too.
func (s State) Sockets(p model.Protocol, to netip.AddrPort) (found simulate.Sockets, err error) {
	name := map[model.Protocol]string{model.TCP: "tcp", model.UDP: "udp"}[p]
	if name == "" {
		return found, nil
	}
	files := []string{name, name + "6"}
	for _, file := range files[model.FamilyOf(to.Addr()):] {
		err := s.eachLine(file, func(fields []string) bool {
			const listening = "0A"
			if len(fields) < 4 || !strings.HasSuffix(fields[0], ":") {
				return true // the head
			}
			if p == model.TCP && fields[3] != listening {
				return false // the listening ones are first
			}
			if local := parseAddrPort(fields[1]); local.Port() == to.Port() {
				found.Addr = found.Addr || local.Addr() == to.Addr()
				found.Any = found.Any || local.Addr().IsUnspecified()
			}
			return true
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// parseAddrPort parses "0100007F:1F90": words in the byte order of the machine.
func parseAddrPort(text string) netip.AddrPort {
	addr, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(addr)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a.Unmap(), uint16(n))
}
