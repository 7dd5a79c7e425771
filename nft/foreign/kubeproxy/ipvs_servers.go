package kubeproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// The generic netlink family of IPVS (include/uapi/linux/ip_vs.h). No library that we depend on
// has it.
const (
	familyName    = "IPVS" // IPVS_GENL_NAME
	familyVersion = 1      // IPVS_GENL_VERSION

	cmdDelService = 3 // IPVS_CMD_DEL_SERVICE
	cmdGetService = 4 // IPVS_CMD_GET_SERVICE

	attrService  = 1 // IPVS_CMD_ATTR_SERVICE, within it:
	attrFamily   = 1 // IPVS_SVC_ATTR_AF
	attrProtocol = 2 // IPVS_SVC_ATTR_PROTOCOL
	attrAddress  = 3 // IPVS_SVC_ATTR_ADDR, 16 bytes for every family
	attrPort     = 4 // IPVS_SVC_ATTR_PORT
	attrMark     = 5 // IPVS_SVC_ATTR_FWMARK
)

type server struct {
	key []byte // the attributes that name it, as the kernel wrote them
	at  netip.AddrPort
	// isFirewallMark means that it serves a firewall mark, not an address.
	isFirewallMark bool
}

func openAndRemoveServers(netNS int, except []netip.Prefix) (removed int, err error) {
	conn, err := socket.OpenGeneric(netNS)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return removeServers(conn, except)
}

// removeServers removes the virtual servers, but not the ones of a firewall mark, which kube-proxy
// does not create, and those in excluded ranges. While it ran, kube-proxy considered all others its
// own, too, and removed those it did not know.
func removeServers(conn *netlink.Conn, except []netip.Prefix) (removed int, err error) {
	id, err := ipvsFamily(conn)
	if id == 0 || err != nil {
		return 0, err
	}
	servers, err := listServers(conn, id)
	if err != nil {
		return 0, err
	}
	for _, s := range servers {
		if s.isFirewallMark || slices.ContainsFunc(except, func(p netip.Prefix) bool { return p.Contains(s.at.Addr()) }) {
			continue
		}
		switch e := s.remove(conn, id); {
		case e == nil:
			removed++
		case !errors.Is(e, unix.ESRCH): // another program removed it first
			err = errors.Join(err, fmt.Errorf("remove virtual server %s: %w", s.at, e))
		}
	}
	return removed, err
}

// ipvsFamily returns the number of IPVS among the generic netlink families, zero if the kernel has
// no IPVS. All families are listed, because to ask for one by name makes the kernel load its module.
func ipvsFamily(conn *netlink.Conn) (id uint16, err error) {
	m := genericRequest(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, netlink.Dump, nil)
	err = socket.Ask(conn, m, func(m netlink.Message) error {
		var d attr.Decoder
		attributes := d.Body(m.Data)
		if attr.String(d.Find(attributes, unix.CTRL_ATTR_FAMILY_NAME)) == familyName {
			id = d.NativeUint16(d.Find(attributes, unix.CTRL_ATTR_FAMILY_ID))
		}
		return d.Err()
	})
	if err != nil {
		return 0, fmt.Errorf("list generic netlink families: %w", err)
	}
	return id, nil
}

// genericRequest returns a request to a generic netlink family, with the attributes of a server
// unless it is nil.
func genericRequest(id uint16, command uint8, flags netlink.HeaderFlags, s *server) netlink.Message {
	e := attr.Encoder{Bytes: []byte{command, familyVersion, 0, 0}} // struct genlmsghdr
	if s != nil {
		e.Data(attrService|unix.NLA_F_NESTED, s.key)
	}
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(id), Flags: netlink.Request | flags},
		Data:   e.Bytes,
	}
}

func listServers(conn *netlink.Conn, id uint16) (servers []server, err error) {
	err = socket.Ask(conn, genericRequest(id, cmdGetService, netlink.Dump, nil), func(m netlink.Message) error {
		var d attr.Decoder
		for kind, value := range d.Attributes(d.Body(m.Data)) {
			if kind == attrService {
				servers = append(servers, decodeServer(&d, value))
			}
		}
		return d.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list virtual servers of IPVS: %w", err)
	}
	return servers, nil
}

func decodeServer(d *attr.Decoder, attributes []byte) (s server) {
	var key attr.Encoder
	var address []byte
	var port uint16
	length := 4
	for kind, value := range d.Attributes(attributes) {
		switch kind {
		case attrFamily:
			if d.NativeUint16(value) == unix.AF_INET6 {
				length = 16
			}
		case attrAddress:
			address = value
		case attrPort:
			port = d.Uint16(value)
		case attrMark:
			s.isFirewallMark = true
		}
		if kind <= attrPort {
			key.Data(kind, value)
		}
	}
	a, _ := netip.AddrFromSlice(address[:min(length, len(address))])
	s.key, s.at = key.Bytes, netip.AddrPortFrom(a, port)
	return s
}

func (s server) remove(conn *netlink.Conn, id uint16) error {
	m := genericRequest(id, cmdDelService, netlink.Acknowledge, &s)
	return socket.Ask(conn, m, func(netlink.Message) error { return nil })
}
