package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Numbers of IPVS's generic netlink family (include/uapi/linux/ip_vs.h).
const (
	cmdDelService = 3 // IPVS_CMD_DEL_SERVICE
	cmdGetService = 4 // IPVS_CMD_GET_SERVICE

	attrService  = 1 // IPVS_CMD_ATTR_SERVICE, within it:
	attrFamily   = 1 // IPVS_SVC_ATTR_AF
	attrProtocol = 2 // IPVS_SVC_ATTR_PROTOCOL
	attrAddress  = 3 // IPVS_SVC_ATTR_ADDR, 16 bytes for every family
	attrPort     = 4 // IPVS_SVC_ATTR_PORT
	attrMark     = 5 // IPVS_SVC_ATTR_FWMARK
)

// server is a virtual server, with what names it as the kernel wrote it.
type server struct {
	family                  uint16
	protocol, address, port []byte
	isFirewallMark          bool // it serves a firewall mark, not an address
}

// RemoveServers removes the virtual servers but those of a firewall mark, which
// kube-proxy does not make, and those of excluded ranges. It returns how many are
// gone.
func RemoveServers(c Config) (removed int, err error) {
	conn, err := netlink.Dial(unix.NETLINK_GENERIC, &netlink.Config{NetNS: c.NetNS})
	if err != nil {
		return 0, fmt.Errorf("open a generic netlink socket: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return removeServers(conn, c.ExcludeCIDRs)
}

func removeServers(conn *netlink.Conn, except []netip.Prefix) (removed int, err error) {
	id, err := family(conn)
	if id == 0 || err != nil {
		return 0, err
	}
	servers, err := list(conn, id)
	if err != nil {
		return 0, err
	}
	for _, s := range servers {
		if s.isFirewallMark || slices.ContainsFunc(except, func(p netip.Prefix) bool { return p.Contains(s.addr()) }) {
			continue
		}
		switch e := s.remove(conn, id); {
		case e == nil:
			removed++
		case !errors.Is(e, unix.ESRCH): // somebody was faster
			err = errors.Join(err, fmt.Errorf("remove virtual server %s: %w", s, e))
		}
	}
	return removed, err
}

func list(conn *netlink.Conn, id uint16) (servers []server, err error) {
	m := message(id, cmdGetService, netlink.Dump, nil)
	err = ask(conn, m, func(ad *netlink.AttributeDecoder) error {
		for ad.Next() {
			if ad.Type() == attrService {
				ad.Nested(func(nested *netlink.AttributeDecoder) error {
					servers = append(servers, decode(nested))
					return nil
				})
			}
		}
		return nil
	})
	return servers, err
}

func decode(ad *netlink.AttributeDecoder) (s server) {
	for ad.Next() {
		switch ad.Type() {
		case attrFamily:
			s.family = ad.Uint16()
		case attrProtocol:
			s.protocol = ad.Bytes()
		case attrAddress:
			s.address = ad.Bytes()
		case attrPort:
			s.port = ad.Bytes()
		case attrMark:
			s.isFirewallMark = true
		}
	}
	return s
}

func (s server) remove(conn *netlink.Conn, id uint16) error {
	m := message(id, cmdDelService, netlink.Acknowledge, func(ae *netlink.AttributeEncoder) {
		ae.Nested(attrService, func(ae *netlink.AttributeEncoder) error {
			ae.Uint16(attrFamily, s.family)
			ae.Bytes(attrProtocol, s.protocol)
			ae.Bytes(attrAddress, s.address)
			ae.Bytes(attrPort, s.port)
			return nil
		})
	})
	return ask(conn, m, nil)
}

// addr is the server's address, invalid if it has none.
func (s server) addr() netip.Addr {
	length := 4
	if s.family == unix.AF_INET6 {
		length = 16
	}
	a, _ := netip.AddrFromSlice(s.address[:min(length, len(s.address))])
	return a
}

func (s server) String() string {
	var port uint16
	if len(s.port) == 2 {
		port = binary.BigEndian.Uint16(s.port)
	}
	return netip.AddrPortFrom(s.addr(), port).String()
}
