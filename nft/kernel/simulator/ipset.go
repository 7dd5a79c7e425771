package simulator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/simulate"
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
// What the key of a packet has is that of the functions *_kadt of net/netfilter/ipset; the
// attributes are those of include/uapi/linux/netfilter/ipset/ip_set.h.
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
