package bench

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

const (
	// trackedEntries are the entries of connection tracking that are observed.
	trackedEntries = 200_000
	// trackedEndpoints is the number of endpoints that they go to.
	trackedEndpoints = 10
)

// trackedService is the address that connections are made to.
var trackedService = netip.MustParseAddrPort("10.96.0.10:80")

func trackedEndpoint(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 1, byte(n % trackedEndpoints)}), podPort)
}

// Messages and attributes of ctnetlink (include/uapi/linux/netfilter/nfnetlink_conntrack.h).
const (
	ctNew = 0 // IPCTNL_MSG_CT_NEW

	ctaTupleOrig, ctaTupleReply, ctaStatus, ctaProtoInfo, ctaTimeout, ctaNATDst = 1, 2, 3, 4, 7, 13
	ctaFirst, ctaSecond, ctaThird                                               = 1, 2, 3 // within these

	tcpSynSent, tcpEstablished = 1, 3
	// statusAnswered are IPS_SEEN_REPLY and IPS_CONFIRMED (nf_conntrack_common.h): the kernel
	// confirms each entry that is written.
	statusAnswered = 1<<1 | 1<<3
)

// track creates entries of TCP connections to the Service, with or without an answer.
func track(b *testing.B, s *sandbox, entries int, answered bool) {
	b.Helper()
	const batch = 500
	for first := 0; first < entries; first += batch {
		var e attr.Encoder
		for i := first; i < first+batch; i++ {
			client := netip.AddrFrom4([4]byte{10, 100 + byte(i>>16), byte(i >> 8), byte(i)})
			port := uint16(40_000)
			if !answered {
				port++
			}
			addTracked(&e, netip.AddrPortFrom(client, port), trackedEndpoint(i), answered)
		}
		s.send(b, e.Bytes)
	}
}

// trackDenied adds entries without a reply of one client that has no others, to as many endpoints.
func trackDenied(b *testing.B, s *sandbox, entries int) {
	b.Helper()
	var e attr.Encoder
	for i := range entries {
		client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 99, 0, 1}), uint16(10_000+i))
		addTracked(&e, client, trackedEndpoint(i), false)
	}
	s.send(b, e.Bytes)
}

// addTracked adds the message that creates an entry.
func addTracked(e *attr.Encoder, client, endpoint netip.AddrPort, answered bool) {
	tuple := func(kind uint16, src, dst netip.AddrPort) {
		e.Nested(kind, func() {
			e.Nested(ctaFirst, func() {
				e.Data(ctaFirst, src.Addr().AsSlice())
				e.Data(ctaSecond, dst.Addr().AsSlice())
			})
			e.Nested(ctaSecond, func() {
				e.Uint8(ctaFirst, uint8(model.TCP))
				e.Uint16(ctaSecond, src.Port())
				e.Uint16(ctaThird, dst.Port())
			})
		})
	}
	e.OpenMessage(unix.NFNL_SUBSYS_CTNETLINK<<8|ctNew, unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	e.NetfilterHeader(unix.NFPROTO_IPV4, 0)
	tuple(ctaTupleOrig, client, trackedService)
	tuple(ctaTupleReply, trackedService, client)
	e.Uint32(ctaTimeout, 3600)
	state := uint8(tcpSynSent)
	if answered {
		e.Uint32(ctaStatus, statusAnswered)
		state = tcpEstablished
	}
	e.Nested(ctaNATDst, func() {
		e.Data(ctaFirst, endpoint.Addr().AsSlice())
		e.Data(ctaSecond, endpoint.Addr().AsSlice())
		e.Nested(ctaThird, func() {
			e.Uint16(ctaFirst, endpoint.Port())
			e.Uint16(ctaSecond, endpoint.Port())
		})
	})
	e.Nested(ctaProtoInfo, func() { e.Nested(ctaFirst, func() { e.Uint8(ctaFirst, state) }) })
	e.CloseMessage()
}
