package livenode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel/socket"
)

// ipsets are the sets of ipset of one network namespace, and implement [simulate.IPSets].
//
//	match "set" of iptables: index, directions
//	     |  IPSET_CMD_GET_BYINDEX, IPSET_CMD_HEADER    name, type, family
//	     v
//	the parts of the key by the type, "hash:ip,port": address, protocol and port
//	     |  IPSET_CMD_TEST                             the kernel looks it up
//	     v
//	found or not
//
// The kernel looks up the key as it does for a packet: ranges, exceptions and timeouts need not
// be known here, and large sets are not read. Only a set of sets is read, to test its members.
// The key of a packet is as in the functions *_kadt of net/netfilter/ipset; the
// attributes are in include/uapi/linux/netfilter/ipset/ip_set.h.
type ipsets struct{ conn *netlink.Conn }

// Commands (enum ipset_cmd).
const (
	commandList    = 7
	commandTest    = 11
	commandHeader  = 12
	commandByIndex = 15
)

// Attributes of a command, and of an element.
const (
	attrProtocol = 1
	attrSetName  = 2
	attrTypeName = 3
	attrFamily   = 5
	attrData     = 7
	attrElements = 8
	attrIndex    = 11

	elementAddr     = 1
	elementPort     = 4
	elementProtocol = 7
	elementFlags    = 8
	elementMark     = 10
	elementName     = 18
	elementAddr2    = 20
	elementLink     = 23

	addrIPv4 = 1
	addrIPv6 = 2
)

// ipsetProtocol is the version of the commands, since Linux 4.20.
const ipsetProtocol = 7

// flagNoMatch asks for an exception (IPSET_FLAG_NOMATCH).
const flagNoMatch = 4

// Errors that mean that a set does not have the key (enum ipset_errno). Those from the last on
// are of one type, such as that the key is out of the range of the set.
const (
	errExist        = unix.Errno(4103)
	errTypeSpecific = unix.Errno(4352)
)

type setHeader struct {
	name, kind string
	family     uint8
}

// Contains implements [simulate.IPSets].
func (s *ipsets) Contains(q simulate.IPSetQuery) (bool, error) {
	var h setHeader
	if err := s.ask(commandByIndex, 0, func(e *attr.Encoder) { e.Uint16(attrIndex, q.Index) }, h.decode); err != nil {
		return false, fmt.Errorf("find the set of ipset with index %d: %w", q.Index, err)
	}
	found, err := s.contains(h.name, q)
	if err != nil {
		return false, fmt.Errorf("look up a packet in set %s of ipset: %w", h.name, err)
	}
	return found, nil
}

// contains looks up a packet in a set (ip_set_test of net/netfilter/ipset/ip_set_core.c).
func (s *ipsets) contains(name string, q simulate.IPSetQuery) (bool, error) {
	var h setHeader
	if err := s.ask(commandHeader, 0, named(name), h.decode); err != nil {
		return false, err
	}
	_, fields, _ := strings.Cut(h.kind, ":")
	key := setKey{query: q, fields: strings.Split(fields, ","), ports: h.kind == "bitmap:port"}
	switch {
	case int(q.Dimensions) < len(key.fields), h.family != unix.NFPROTO_UNSPEC && h.family != nft.FamilyNumber(q.Family):
		return false, nil
	case key.ports && q.Protocol == model.SCTP: // bitmap_port.c knows TCP and UDP
		return false, nil
	case h.kind == "list:set":
		return s.containsMember(name, q)
	}
	if err := key.check(); err != nil {
		return false, err
	}
	err := s.ask(commandTest, netlink.Acknowledge, func(e *attr.Encoder) {
		named(name)(e)
		e.Nested(attrData, func() { key.encode(e) })
	}, nil)
	var errno unix.Errno
	if errors.As(err, &errno) && (errno == errExist || errno >= errTypeSpecific) {
		return false, nil
	}
	return err == nil, err
}

// containsMember looks up a packet in the members of a set of sets.
func (s *ipsets) containsMember(name string, q simulate.IPSetQuery) (bool, error) {
	var members []string
	err := s.ask(commandList, netlink.Dump, named(name), func(d *attr.Decoder, body []byte) {
		for _, element := range d.Attributes(d.Find(body, attrElements)) {
			members = append(members, attr.String(d.Find(element, elementName)))
		}
	})
	if err != nil {
		return false, err
	}
	for _, m := range members {
		if found, err := s.contains(m, q); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

func named(name string) func(*attr.Encoder) {
	return func(e *attr.Encoder) { e.String(attrSetName, name) }
}

func (h *setHeader) decode(d *attr.Decoder, body []byte) {
	h.name = attr.String(d.Find(body, attrSetName))
	if kind := d.Find(body, attrTypeName); kind != nil {
		h.kind, h.family = attr.String(kind), d.Uint8(d.Find(body, attrFamily))
	}
}

func (s *ipsets) ask(command uint16, flags netlink.HeaderFlags, attributes func(*attr.Encoder),
	fn func(*attr.Decoder, []byte),
) error {
	request := socket.Request(unix.NFNL_SUBSYS_IPSET, command, flags, unix.NFPROTO_IPV4, func(e *attr.Encoder) {
		e.Uint8(attrProtocol, ipsetProtocol)
		attributes(e)
	})
	return socket.Ask(s.conn, request, func(m netlink.Message) error {
		var d attr.Decoder
		fn(&d, d.Body(m.Data))
		return d.Err()
	})
}

// A setKey is what a packet has for the fields of a type.
type setKey struct {
	query  simulate.IPSetQuery
	fields []string
	// ports is true for a set of ports without a protocol.
	ports bool
}

// ofSource reports whether a field, counted from zero, is of the packet's source.
func (k setKey) ofSource(field int) bool { return k.query.FromSource&(1<<(field+1)) != 0 }

func (k setKey) end(field int) netip.AddrPort {
	if k.ofSource(field) {
		return k.query.Source
	}
	return k.query.Destination
}

func (k setKey) link(field int) string {
	if k.ofSource(field) {
		return k.query.In
	}
	return k.query.Out
}

// check returns an error for what is not known of a packet.
func (k setKey) check() error {
	for i, f := range k.fields {
		switch {
		case f == "mac":
			return simulate.Undecided("a match of a set of link-layer addresses")
		case f == "port" && k.end(i).Port() == 0:
			return simulate.Undecided("a match of a set with the client's port, which is not named")
		case f == "iface" && k.link(i) == "":
			return simulate.Undecided("a match of a set of interfaces, of which the packet has none")
		}
	}
	return nil
}

func (k setKey) encode(e *attr.Encoder) {
	addr := uint16(elementAddr)
	for i, f := range k.fields {
		switch f {
		case "ip", "net":
			encodeAddr(e, addr, k.end(i).Addr())
			addr = elementAddr2
		case "port":
			if !k.ports {
				e.Uint8(elementProtocol, uint8(k.query.Protocol))
			}
			e.Uint16(elementPort|unix.NLA_F_NET_BYTEORDER, k.end(i).Port())
		case "iface":
			e.String(elementLink, k.link(i))
		case "mark":
			e.Uint32(elementMark|unix.NLA_F_NET_BYTEORDER, k.query.Mark)
		}
	}
	if k.query.ReturnNoMatch {
		e.Uint32(elementFlags|unix.NLA_F_NET_BYTEORDER, flagNoMatch)
	}
}

func encodeAddr(e *attr.Encoder, kind uint16, a netip.Addr) {
	e.Nested(kind, func() {
		if a.Is4() {
			b := a.As4()
			e.Uint32(addrIPv4|unix.NLA_F_NET_BYTEORDER, binary.BigEndian.Uint32(b[:]))
			return
		}
		e.Data(addrIPv6|unix.NLA_F_NET_BYTEORDER, a.AsSlice())
	})
}
