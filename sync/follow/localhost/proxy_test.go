package localhost

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen"
	"kube-vmap/sync/follow/listen/listentest"
)

func TestNodePortListensOnLoopbackOfItsFamily(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		r, b, port := served(t, f)
		p := b.connect(t, port)
		p.talk(t)
		for _, other := range []netip.Addr{loopback[1-f], netip.MustParseAddr("127.0.0.2")} {
			if at := netip.AddrPortFrom(other, port); listentest.IsOpen(t, at) {
				t.Errorf("%s is open", at)
			}
		}
		if w := r.recorder.Warnings(); len(w) > 0 {
			t.Errorf("events: %v", w)
		}
		if n := r.Listeners(); n[f].Open != 1 || n[1-f].Open != 0 {
			t.Errorf("counts %+v", n)
		}
	})
}

func TestOnlyTCPNodePortsWithEndpointsAreServed(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		r, b := newRig(), backend{addr: netip.MustParseAddrPort(clusterIPs[f])}
		r.Families[1-f] = false
		var set []model.Frontend
		skip := func(change func(*model.Frontend)) {
			front := b.nodePort("other", 30000+uint16(len(set)))
			change(&front)
			set = append(set, front)
		}
		skip(func(other *model.Frontend) { other.Match.Family = 1 - f })
		skip(func(f *model.Frontend) { f.Match.Protocol = model.UDP })
		skip(func(f *model.Frontend) { f.Match.Protocol = model.SCTP })
		for _, k := range []model.Kind{model.KindClusterIP, model.KindExternalIP, model.KindLoadBalancerIP} {
			skip(func(f *model.Frontend) { f.Kind, f.Match.Addr = k, f.Pool.Key.Addr })
		}
		for _, v := range []model.Verdict{model.VerdictReject, model.VerdictDrop} {
			skip(func(f *model.Frontend) { f.Verdict, f.Pool = v, &model.Pool{Key: f.Pool.Key} })
		}
		local := b.nodePort("local", 30080) // drops others' connections, not the node's
		local.Policy, local.Verdict = model.PolicyLocal, model.VerdictDrop
		r.Follow(sync.Committed{Full: true, Set: append(set, local)})
		if len(r.routes) != 1 || r.routes[local.Match].service != local.Service.ServiceName {
			t.Errorf("served: %v", r.routes)
		}
	})
}

// clusterIPs are the addresses of Services that no test connects to.
var clusterIPs = [...]string{"10.96.0.1:80", "[fd00:10::1]:80"}

func TestConnectionsGoToNodeAddressOrClusterIP(t *testing.T) {
	r := newRig()
	var set []model.Frontend
	for _, f := range model.Families {
		b := backend{addr: netip.MustParseAddrPort(clusterIPs[f])}
		set = append(set, b.nodePort("web", 30080))
	}
	r.Follow(sync.Committed{Full: true, Set: set})
	for nodeAddrs, want := range map[string][len(model.Families)]string{
		"192.0.2.7 2001:db8::7":                   {"192.0.2.7:30080", "[2001:db8::7]:30080"},
		"192.0.2.7 192.0.2.8 2001:db8::7 fd00::7": {"192.0.2.7:30080", "[2001:db8::7]:30080"},
		"192.0.2.7":   {"192.0.2.7:30080", clusterIPs[model.IPv6]},
		"2001:db8::7": {clusterIPs[model.IPv4], "[2001:db8::7]:30080"},
		"127.0.0.1 127.0.0.9 169.254.1.1 ::1 fe80::1": clusterIPs,
		"": clusterIPs,
	} {
		var addrs []netip.Addr
		for word := range strings.FieldsSeq(nodeAddrs) {
			addrs = append(addrs, netip.MustParseAddr(word))
		}
		r.Follow(sync.Committed{NodeAddrs: addrs})
		for _, f := range model.Families {
			s := listen.Socket{Service: set[f].Service.ServiceName, Addr: netip.AddrPortFrom(loopback[f], 30080)}
			if got, err := r.target(s); err != nil || got.String() != want[f] {
				t.Errorf("with %q, %s: connects to %s, want %s (%v)", nodeAddrs, f, got, want[f], err)
			}
		}
	}
}

func TestConnectionsNeverReachAnotherService(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		r, b := newRig(), backend{addr: netip.MustParseAddrPort(clusterIPs[f])}
		names := []string{"before", "after"}
		for _, served := range names {
			r.Follow(sync.Committed{Set: []model.Frontend{b.nodePort(served, 30080)}})
			for _, name := range names {
				s := listen.Socket{Service: b.nodePort(name, 30080).Service.ServiceName, Addr: b.local(30080)}
				if to, err := r.target(s); (err == nil) != (name == served) {
					t.Errorf("while %s is served, a connection to %s goes to %s, %v", served, name, to, err)
				}
			}
		}
	})
}

func TestConnectionsOutliveTheirService(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		r, b, port := served(t, f)
		front := b.nodePort("web", port)
		empty := front
		empty.Verdict, empty.Pool = model.VerdictReject, &model.Pool{Key: front.Pool.Key}
		for name, commit := range map[string]sync.Committed{
			"removed": {Removed: []model.Match{front.Match}}, "not in a full commit": {Full: true},
			"without endpoints": {Set: []model.Frontend{empty}},
		} {
			p := b.connect(t, port)
			r.Follow(commit)
			listentest.WaitClosed(t, b.local(port))
			p.talk(t)
			r.Follow(sync.Committed{Set: []model.Frontend{front}})
			b.connect(t, port).talk(t)
			if t.Failed() {
				t.Fatal(name)
			}
		}
	})
}

func TestUnservedConnectionsAreReset(t *testing.T) {
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	unresponsive := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, dials := range map[string]dialer{"refused": refused, "unresponsive": unresponsive} {
		inBoth(t, func(t *testing.T, f model.Family) {
			_, b, port := served(t, f, func(r *rig) { r.dial, r.dialTimeout = dials, 50*time.Millisecond })
			if _, err := listentest.Dial(t, b.local(port)).Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: the client sees %v", name, err)
			}
		})
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		r, b, port := served(t, f, func(r *rig) { r.open = semaphore.NewWeighted(3) })
		var open []pair
		for range 3 {
			open = append(open, b.connect(t, port))
		}
		for range 5 {
			if _, err := listentest.Dial(t, b.local(port)).Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a connection above the limit sees %v", err)
			}
		}
		for _, p := range open {
			p.talk(t)
		}
		if n := strings.Count(r.log.String(), "too many connections"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, r.log.String())
		}
		open[0].client.Close()
		open[0].server.Close()
		listentest.Eventually(t, "a connection ends", func() bool {
			free := r.open.TryAcquire(1)
			if free {
				r.open.Release(1)
			}
			return free
		})
		b.connect(t, port).talk(t)
	})
}

func TestShutdownLetsConnectionsFinish(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		r, b, port := newRig(), newBackend(t, f), listentest.FreePort(t)
		r.grace = listentest.Timeout
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		r.Follow(sync.Committed{Full: true, Set: []model.Frontend{b.nodePort("web", port)}})
		p := b.connect(t, port)
		cancel()
		listentest.WaitClosed(t, b.local(port))
		p.talk(t)
		select {
		case err := <-done:
			t.Fatal("Run returned early:", err)
		default:
		}
		p.client.Close()
		if _, err := p.server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the end of data arrives as %v", err)
		}
		p.server.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownClosesConnectionsAfterGrace has an open connection, and one whose backend does not
// accept.
func TestShutdownClosesConnectionsAfterGrace(t *testing.T) {
	inBoth(t, func(t *testing.T, f model.Family) {
		var dials atomic.Int32
		dialing := make(chan struct{}, 1)
		r, b, port := served(t, f, func(r *rig) {
			r.grace, r.dialTimeout = 50*time.Millisecond, time.Hour
			connect := r.dial
			r.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials.Add(1) == 1 {
					return connect(ctx, network, address)
				}
				dialing <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		p := b.connect(t, port)
		p.talk(t)
		waiting := listentest.Dial(t, b.local(port))
		<-dialing
		r.stop()
		for _, c := range []net.Conn{p.client, p.server, waiting} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the end of data arrives as %v", err)
			}
		}
	})
}
