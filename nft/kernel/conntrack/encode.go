package conntrack

import (
	"encoding/binary"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// What ctnetlink calls things (include/uapi/linux/netfilter/nfnetlink_conntrack.h).
const (
	msgGet    = 1 // IPCTNL_MSG_CT_GET
	msgDelete = 2 // IPCTNL_MSG_CT_DELETE

	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaID         = 12
	ctaZone       = 18
	ctaFilter     = 25

	ctaTupleIP    = 1
	ctaTupleProto = 2

	ctaIPv4Src = 1
	ctaIPv4Dst = 2
	ctaIPv6Src = 3
	ctaIPv6Dst = 4

	ctaProtoNum     = 1
	ctaProtoSrcPort = 2
	ctaProtoDstPort = 3

	ctaFilterOrigFlags = 1
)

// What a filter compares (net/netfilter/nf_internals.h).
const (
	filterProtocol = 1 << 3 // CTA_FILTER_F_CTA_PROTO_NUM
	filterDstPort  = 1 << 5 // CTA_FILTER_F_CTA_PROTO_DST_PORT
)

// families are the families' numbers in netfilter.
var families = [...]uint8{model.IPv4: unix.NFPROTO_IPV4, model.IPv6: unix.NFPROTO_IPV6}

// encodeList asks for all entries of a family, filtered by protocol, and by port
// unless it is anyPort.
func encodeList(q Query, port uint16, filtered bool) (netlink.Message, error) {
	enc := netlink.NewAttributeEncoder()
	enc.ByteOrder = binary.BigEndian
	if filtered {
		encodeFilter(enc, q.Protocol, port)
	}
	attrs, err := enc.Encode()
	return message(msgGet, netlink.Dump, q.Family, attrs), err
}

func encodeFilter(enc *netlink.AttributeEncoder, protocol model.Protocol, port uint16) {
	flags := uint32(filterProtocol)
	enc.Nested(ctaTupleOrig, func(tuple *netlink.AttributeEncoder) error {
		tuple.Nested(ctaTupleProto, func(proto *netlink.AttributeEncoder) error {
			proto.Uint8(ctaProtoNum, uint8(protocol))
			if port != anyPort {
				proto.Uint16(ctaProtoDstPort, port)
				flags |= filterDstPort
			}
			return nil
		})
		return nil
	})
	enc.Nested(ctaFilter, func(filter *netlink.AttributeEncoder) error {
		filter.ByteOrder = binary.NativeEndian
		filter.Uint32(ctaFilterOrigFlags, flags)
		return nil
	})
}

// encodeDelete asks to delete the very entry.
func encodeDelete(e Entry) netlink.Message {
	return message(msgDelete, 0, e.Family(), []byte(e.key))
}

func message(kind netlink.HeaderType, flags netlink.HeaderFlags, f model.Family, attrs []byte) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | kind, Flags: netlink.Request | flags},
		Data:   append([]byte{families[f], unix.NFNETLINK_V0, 0, 0}, attrs...),
	}
}
