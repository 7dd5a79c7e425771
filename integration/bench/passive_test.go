package bench

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync/follow/passivehealth"
)

// BenchmarkPassive measures how much of a processor passive health checks take beside many tracked
// connections: of which none waits for a reply; many to endpoints that get unresponsive, whose clients
// are witnesses (once; what may be read at one time, a second, is most of it); or beside one client that
// sends 20 datagrams a second to a Service of 30,000 endpoints without a reply. What a probe costs is in
// sync/follow/passivehealth.BenchmarkProbe.
func BenchmarkPassive(b *testing.B) {
	labtest.Require(b)
	for _, c := range []struct {
		name        string
		waiting     int
		denied      bool
		checks      model.PassiveChecks
		mostPercent float64
	}{
		{"idle-report", 0, false, model.PassiveChecksReport, 0.1},
		{"idle-avoid", 0, false, model.PassiveChecksAvoid, 0.1},
		{"1000-wait", 1000, false, model.PassiveChecksAvoid, 2},
		{"denied", 0, true, model.PassiveChecksReport, 1},
	} {
		s := newSandbox(b)
		track(b, s, trackedEntries, true)
		track(b, s, c.waiting, false)
		var dead, resent atomic.Bool
		t := passivehealth.New(passivehealth.Config{
			Tracking: conntrack.New(conntrack.Config{NetNS: s.host.FD()}),
			Counter:  &resentPackets{Counter: s.kernel, resent: &resent},
			Probe: func(ctx context.Context, to netip.AddrPort, wait time.Duration) error {
				if !dead.Load() || to.Addr().As4()[3]%2 == 0 {
					return nil
				}
				ctx, cancel := context.WithTimeout(ctx, wait)
				defer cancel()
				<-ctx.Done()
				return context.DeadlineExceeded
			},
			Overlays: make(chan []model.Overlay, 1<<20),
			Log:      slog.New(slog.DiscardHandler),
		})
		pool := trackedPool(model.Pool{PassiveChecks: c.checks})
		stopDatagrams := func() {}
		if c.denied {
			pool.Set = append(pool.Set, deniedFrontend(c.checks))
			stopDatagrams = sendDenied(b, s)
		}
		t.Follow(pool)
		debug.FreeOSMemory() // or else the runtime does so meanwhile
		warmUp, measured := 5*time.Second, 100*time.Second
		if testing.Short() && c.waiting == 0 {
			measured = 20 * time.Second
		}
		idle := cpuOfProcess(b)
		<-time.After(measured / 2)
		without := 2 * (cpuOfProcess(b) - idle) // what the process takes without the checks
		ctx, cancel := context.WithTimeout(b.Context(), warmUp+measured)
		var before time.Duration
		time.AfterFunc(warmUp, func() {
			dead.Store(true)
			resent.Store(c.waiting > 0)
			before = cpuOfProcess(b)
		})
		must(b, t.Run(ctx))
		used := max(cpuOfProcess(b)-before-without, 0)
		cancel()
		stopDatagrams()
		if unresponsive, _, _ := t.Totals(); (unresponsive > 0) != (c.waiting > 0) {
			b.Errorf("%s: %d endpoints are unresponsive", c.name, unresponsive)
		}
		report.Line(b, c.name, share(used, measured, c.mostPercent))
		s.close()
	}
}

// resentPackets is the counter of first packets that were sent again. It moves at every reading once
// some were sent.
type resentPackets struct {
	passivehealth.Counter
	resent *atomic.Bool
	n      uint64
}

// Unanswered implements [passivehealth.Counter].
func (r *resentPackets) Unanswered() (uint64, error) {
	if r.resent.Load() {
		r.n++
	}
	n, err := r.Counter.Unanswered()
	return n + r.n, err
}

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
			addTracked(&e, trackedEntry{
				protocol: model.TCP, client: netip.AddrPortFrom(client, port), service: trackedService,
				endpoint: trackedEndpoint(i), answered: answered, seconds: 3600,
			})
		}
		s.send(b, e.Bytes)
	}
}

// deniedService has deniedEndpoints endpoints, and no client of it gets a reply.
var deniedService = netip.MustParseAddrPort("10.96.0.11:80")

const deniedEndpoints = 30_000

func deniedEndpoint(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 245, byte(n >> 8), byte(n)}), podPort)
}

func deniedFrontend(checks model.PassiveChecks) model.Frontend {
	p := &model.Pool{PassiveChecks: checks}
	p.Key = model.Match{Addr: deniedService.Addr(), Protocol: model.UDP, Port: deniedService.Port()}
	for n := range deniedEndpoints {
		p.Cluster = append(p.Cluster, deniedEndpoint(n))
	}
	return model.Frontend{Match: p.Key, Pool: p}
}

// sendDenied creates the entries of 20 datagrams each second, which expire after 30 seconds.
func sendDenied(b *testing.B, s *sandbox) (stop func()) {
	b.Helper()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n += 20 {
			var e attr.Encoder
			for i := n; i < n+20; i++ {
				client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 99, 0, 1}), uint16(10_000+i%50_000))
				addTracked(&e, trackedEntry{
					protocol: model.UDP, client: client, service: deniedService,
					endpoint: deniedEndpoint(i * 7919 % deniedEndpoints), seconds: 30,
				})
			}
			s.send(b, e.Bytes)
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// A trackedEntry is a connection to a Service that is translated to an endpoint.
type trackedEntry struct {
	protocol                  model.Protocol
	client, service, endpoint netip.AddrPort
	answered                  bool
	seconds                   uint32 // until it expires
}

func addTracked(e *attr.Encoder, t trackedEntry) {
	tuple := func(kind uint16, src, dst netip.AddrPort) {
		e.Nested(kind, func() {
			e.Nested(ctaFirst, func() {
				e.Data(ctaFirst, src.Addr().AsSlice())
				e.Data(ctaSecond, dst.Addr().AsSlice())
			})
			e.Nested(ctaSecond, func() {
				e.Uint8(ctaFirst, uint8(t.protocol))
				e.Uint16(ctaSecond, src.Port())
				e.Uint16(ctaThird, dst.Port())
			})
		})
	}
	e.OpenMessage(unix.NFNL_SUBSYS_CTNETLINK<<8|ctNew, unix.NLM_F_REQUEST|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	e.NetfilterHeader(unix.NFPROTO_IPV4, 0)
	tuple(ctaTupleOrig, t.client, t.service)
	tuple(ctaTupleReply, t.service, t.client)
	e.Uint32(ctaTimeout, t.seconds)
	state := uint8(tcpSynSent)
	if t.answered {
		e.Uint32(ctaStatus, statusAnswered)
		state = tcpEstablished
	}
	e.Nested(ctaNATDst, func() {
		e.Data(ctaFirst, t.endpoint.Addr().AsSlice())
		e.Data(ctaSecond, t.endpoint.Addr().AsSlice())
		e.Nested(ctaThird, func() {
			e.Uint16(ctaFirst, t.endpoint.Port())
			e.Uint16(ctaSecond, t.endpoint.Port())
		})
	})
	if t.protocol == model.TCP {
		e.Nested(ctaProtoInfo, func() { e.Nested(ctaFirst, func() { e.Uint8(ctaFirst, state) }) })
	}
	e.CloseMessage()
}
