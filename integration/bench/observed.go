package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/leastconn"
)

// trackedEntries are the entries of connection tracking that are observed.
const trackedEntries = 200_000

// maxObservationShare is the part of one processor that observing may take.
const maxObservationShare = 0.02

// observed measures how much of a processor least connections takes beside many tracked
// connections: of which all go to Services, or a quarter.
func (b *bench) observed() error {
	parts := []int{1, 4}
	if b.quick {
		parts = parts[1:]
	}
	for _, part := range parts {
		err := inSandbox(func(box *sandbox) error { return b.observedPart(box, part) })
		if err != nil {
			return err
		}
	}
	return nil
}

// observedPart measures three observations, with the pause after each.
func (b *bench) observedPart(box *sandbox, part int) error {
	if err := track(box.raw, trackedEntries, part, true); err != nil {
		return err
	}
	const observations = 3
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	k := &measuredTracking{Tracking: conntrack.New(conntrack.Config{NetNS: box.host.FD()}), left: observations, cancel: cancel}
	l := leastconn.New(leastconn.Config{Tracking: k, Shares: make(chan []model.PoolShares, 2*observations), Log: slog.New(slog.DiscardHandler)})
	pool := &model.Pool{Scheduler: model.SchedulerLeastConnections, Cluster: []netip.AddrPort{trackedEndpoint(0), trackedEndpoint(1)}}
	pool.Key = model.Match{Addr: trackedService.Addr(), Protocol: model.TCP, Port: trackedService.Port()}
	l.Follow(sync.Committed{Full: true, Set: []model.Frontend{{Match: pool.Key, Pool: pool}}})
	if err := l.Run(ctx); err != nil {
		return err
	}
	if k.err != nil {
		return k.err
	}
	share := k.used.Seconds() / k.elapsed.Seconds()
	what := fmt.Sprintf("least connections, %d of %d connections translated: part of a processor", trackedEntries/part, trackedEntries)
	b.Mark(share < maxObservationShare, what, percent(share), "one observation "+report.Text(k.took.Median()), "below "+percent(maxObservationShare))
	return nil
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// measuredTracking measures the time and processor time from the start of its first
// observation to that of the last one.
type measuredTracking struct {
	leastconn.Tracking
	left    int
	cancel  context.CancelFunc
	began   time.Time
	before  time.Duration
	took    report.Times
	elapsed time.Duration
	used    time.Duration
	err     error
}

// EachTranslated implements [leastconn.Tracking].
func (k *measuredTracking) EachTranslated(begin func(), fn func(conntrack.Entry)) error {
	if k.began.IsZero() {
		k.began, k.before = time.Now(), cpuOfProcess()
	} else if k.left--; k.left == 0 {
		k.elapsed, k.used = time.Since(k.began), cpuOfProcess()-k.before
		k.cancel()
		return nil
	}
	start := time.Now()
	err := k.Tracking.EachTranslated(begin, fn)
	k.took = append(k.took, time.Since(start))
	k.err = errors.Join(k.err, err)
	return err
}

// trackedService is the address that connections are made to.
var trackedService = netip.MustParseAddrPort("10.96.0.10:80")

// trackedEndpoints is the number of endpoints.
const trackedEndpoints = 10

// trackedEndpoint is one of them.
func trackedEndpoint(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 1, byte(n % trackedEndpoints)}), 8080)
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

// track creates entries of TCP connections, a part of which is translated, with or without an
// answer.
func track(raw *rawSocket, entries, part int, answered bool) error {
	const batch = 500
	var parts [][]byte
	for first := 0; first < entries; first += batch {
		var e attr.Encoder
		for i := first; i < first+batch; i++ {
			client := netip.AddrFrom4([4]byte{10, 100 + byte(i>>16), byte(i >> 8), byte(i)})
			port := uint16(40_000)
			if !answered {
				port++
			}
			addTracked(&e, netip.AddrPortFrom(client, port), trackedEndpoint(i/part), i%part == 0, answered)
		}
		parts = append(parts, e.Bytes)
	}
	_, err := raw.send(parts...)
	return err
}

// addTracked adds the message that creates an entry.
func addTracked(e *attr.Encoder, client, endpoint netip.AddrPort, translated, answered bool) {
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
	if translated {
		e.Nested(ctaNATDst, func() {
			e.Data(ctaFirst, endpoint.Addr().AsSlice())
			e.Data(ctaSecond, endpoint.Addr().AsSlice())
			e.Nested(ctaThird, func() {
				e.Uint16(ctaFirst, endpoint.Port())
				e.Uint16(ctaSecond, endpoint.Port())
			})
		})
	}
	e.Nested(ctaProtoInfo, func() { e.Nested(ctaFirst, func() { e.Uint8(ctaFirst, state) }) })
	e.CloseMessage()
}
