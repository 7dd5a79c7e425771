package hold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
)

// A rig has a node with Services that hold for 10 s, and a kernel that records packets to them.
type rig struct {
	*testing.T
	f        model.Family
	protocol model.Protocol
	packets  map[model.Match]time.Time
	clients  map[int]time.Time // of the Service, when they sent last
	total    uint64
	tracked  []conntrack.Entry

	clientsTake time.Duration // to list them
	lists       int
	clientLists int
	failure     error
	hold        *Hold
	changes     chan []model.Overlay
	over        []model.HoldChange
	again       int // how often a hold began again
	events      []string
	log         strings.Builder
}

var (
	clusterIPs = [...]netip.Addr{model.IPv4: netip.MustParseAddr("10.96.0.1"), model.IPv6: netip.MustParseAddr("fd00:96::1")}
	nodes      = [...]netip.Addr{model.IPv4: netip.MustParseAddr("192.0.2.1"), model.IPv6: netip.MustParseAddr("2001:db8::1")}
	// here and elsewhere are endpoints of the Service, on this node and another one.
	here      = [...]netip.AddrPort{model.IPv4: netip.MustParseAddrPort("10.244.1.2:8080"), model.IPv6: netip.MustParseAddrPort("[fd00:10:244::2]:8080")}
	elsewhere = [...]netip.AddrPort{model.IPv4: netip.MustParseAddrPort("10.244.2.2:8080"), model.IPv6: netip.MustParseAddrPort("[fd00:10:244:1::2]:8080")}
)

// run runs a test for each family and protocol, with the follower at work.
func run(t *testing.T, test func(r *rig, to model.Match)) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			t.Run(fmt.Sprint(f, p), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := &rig{T: t, f: f, protocol: p, packets: map[model.Match]time.Time{}}
					ctx, cancel := context.WithCancel(t.Context())
					r.changes = make(chan []model.Overlay, 1000)
					r.hold = New(Config{
						Kernel: r, Tracking: r, Overlays: r.changes, Recorder: r, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
						Addresses:  func() ([]netip.Prefix, error) { return []netip.Prefix{netip.PrefixFrom(nodes[f], 24)}, nil },
						TCPTimeout: func() time.Duration { return 24 * time.Hour },
					})
					r.hold.pace.ProcessorTime, r.hold.clientsPace.ProcessorTime, r.hold.sharesPace.ProcessorTime = nil, nil, nil
					go func() { _ = r.hold.Run(ctx) }()
					defer synctest.Wait()
					defer cancel()
					test(r, model.Match{Addr: clusterIPs[f], Port: 80, Family: f, Protocol: p})
				})
			})
		}
	}
}

func (r *rig) Warn(o sync.Object, reason, _ string) { r.events = append(r.events, o.Name+" "+reason) }

// Counters implements [Kernel].
func (r *rig) Counters(f model.Family) (out [nft.Counters]uint64, err error) {
	if f == r.f {
		out[nft.CounterHeld] = r.total
	}
	return out, r.failure
}

// Clients implements [Kernel]: it lists what expires later than now.
func (r *rig) Clients(id nft.SetID, each func(nft.Client)) error {
	if id.Kind == nft.SetWaiting {
		r.clientLists++
		<-time.After(r.clientsTake)
		for _, at := range r.clients {
			if r.failure == nil && id.Family == r.f && time.Since(at) < nft.WaitingTime {
				each(nft.Client{Destination: model.Match{Addr: clusterIPs[r.f], Port: 80, Family: r.f, Protocol: r.protocol}})
			}
		}
		return r.failure
	}
	if id != (nft.SetID{Family: r.f, Kind: nft.SetHeld}) {
		r.Errorf("set %s of %s is read", id.Name(), id.Family)
	}
	r.lists++
	for to, at := range r.packets {
		if left := nft.HeldTime - time.Since(at); left > 0 {
			each(nft.Client{Destination: to, Expires: left})
		}
	}
	return nil
}

// Apply implements [Kernel].
func (r *rig) Apply(b nft.Batch) (nft.Applied, error) {
	for _, e := range b[0].(nft.DeleteElements).Elements {
		delete(r.packets, nft.Matches(r.f, []nft.Element{e})[0])
	}
	return nft.Applied{}, nil
}

// EachReplied implements [Tracking].
func (r *rig) EachReplied(begin func(), fn func(conntrack.Entry)) error {
	begin()
	for _, e := range r.tracked {
		fn(e)
	}
	return r.failure
}

// set changes what the kernel has, on the goroutine that reads it.
func (r *rig) set(change func()) {
	r.Helper()
	if _, err := sync.CallOn(r.Context(), r.hold.requests, r.hold.ended, func() struct{} { change(); return struct{}{} }); err != nil {
		r.Fatal(err)
	}
}

// send records packets, as far as the set has capacity.
func (r *rig) send(all ...model.Match) {
	r.set(func() {
		maps.DeleteFunc(r.packets, func(_ model.Match, at time.Time) bool { return time.Since(at) >= nft.HeldTime })
		for _, to := range all {
			if len(r.packets) < nft.MaxHeld {
				r.packets[to] = time.Now()
			}
			r.total++
		}
	})
}

// service returns the frontends of a Service port: a ClusterIP and a node port.
func (r *rig) service(key model.Match, namespace, uid string, verdict model.Verdict) []model.Frontend {
	pool := &model.Pool{Key: key, UID: uid, Hold: 10 * time.Second}
	if verdict == model.VerdictBalance {
		pool.FlowEndpoints = []netip.AddrPort{here[key.Family], elsewhere[key.Family]}
		pool.Hairpin = []netip.Addr{here[key.Family].Addr()}
	}
	name := model.ServicePortName{ServiceName: model.ServiceName{Namespace: namespace, Name: "web"}, Protocol: key.Protocol}
	nodePort := key
	nodePort.Addr, nodePort.Port = netip.Addr{}, 30080
	return []model.Frontend{
		{Match: key, Kind: model.KindClusterIP, Service: name, Verdict: verdict, Pool: pool},
		{Match: nodePort, Kind: model.KindNodePort, Service: name, Verdict: verdict, Pool: pool},
	}
}

// commit lets the kernel have only these frontends.
func (r *rig) commit(list ...model.Frontend) {
	r.hold.Follow(sync.Committed{Full: true, Set: list, NodeAddrs: []netip.Addr{nodes[r.f]}})
	r.wait()
}

// wait waits until the follower does, and reads what it has sent.
func (r *rig) wait() {
	synctest.Wait()
	for len(r.changes) > 0 {
		for _, o := range <-r.changes {
			if c := o.(model.HoldChange); c.Over {
				r.over = append(r.over, c)
			} else {
				r.again++
			}
		}
	}
}

// after lets time pass and checks how many pools are over.
func (r *rig) after(d time.Duration, over int) {
	r.Helper()
	<-time.After(d)
	r.wait()
	if len(r.over) != over {
		r.Errorf("%d pools over, want %d", len(r.over), over)
	}
}

func TestHoldEndsAfterFirstPacket(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		r.commit(r.service(to, "shop", "1", model.VerdictHold)...)
		r.after(time.Hour, 0) // no client waits
		if r.lists > 0 {
			r.Errorf("the set was read %d times without packets", r.lists)
		}
		at := to
		at.Addr, at.Port = nodes[r.f], 30080
		r.send(at)
		r.after(5*time.Second, 0)
		r.send(to)
		r.after(4900*time.Millisecond, 0)
		r.after(500*time.Millisecond, 1)
		r.after(time.Minute, 1)
		if want := (model.HoldChange{Key: to, UID: "1", Over: true}); r.over[0] != want || fmt.Sprint(r.events) != "[web ClientsWaiting web HoldOver]" {
			r.Errorf("over: %v, events %v", r.over, r.events)
		}
	})
}

// TestNextOutageHoldsAgain has packets of one outage in the set when the next one begins.
func TestNextOutageHoldsAgain(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		r.commit(r.service(to, "shop", "1", model.VerdictHold)...)
		r.send(to)
		r.after(8*time.Second, 0)
		r.commit(r.service(to, "shop", "1", model.VerdictBalance)...)
		r.after(time.Second, 0)
		r.commit(r.service(to, "shop", "1", model.VerdictHold)...)
		other := to
		other.Port++
		r.send(other) // to have the set read
		r.after(20*time.Second, 0)
		r.send(to)
		r.after(9*time.Second, 0)
		r.commit(r.service(to, "shop", "2", model.VerdictHold)...) // another Service of that name
		r.after(20*time.Second, 0)
		r.send(to)
		r.after(11*time.Second, 1)
		r.commit()
		if n := len(r.hold.frontends) + len(r.hold.pools) + len(r.hold.waiting); n > 0 {
			r.Errorf("%d things remain", n)
		}
	})
}

// TestWaitingClients has two clients of one Service, one of which gives up. Requests in a row share a read.
func TestWaitingClients(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		expect := func(want ...Waiting) {
			t.Helper()
			got, err := r.hold.Waiting(r.Context())
			if err != nil || !slices.Equal(got, want) {
				r.Errorf("waiting: %v, %v, want %v", got, err, want)
			}
		}
		all := r.service(to, "shop", "1", model.VerdictHold)
		for i := range all {
			all[i].Pool.Hold = time.Hour
		}
		r.commit(all...)
		r.after(time.Minute, 0)
		expect()
		first := time.Now()
		r.send(to)
		r.set(func() { r.clients = map[int]time.Time{1: time.Now(), 2: time.Now()} })
		r.after(period, 0)
		for range 10 {
			expect(Waiting{to, first, 2})
		}
		if r.clientLists != len(model.Families) {
			r.Errorf("clients were listed %d times", r.clientLists)
		}
		both := r.clients
		r.set(func() { r.clients = nil }) // for others the set has no capacity left
		r.after(period, 0)
		expect(Waiting{to, first, 1})
		r.set(func() { r.clients = both })
		r.after(20*time.Second, 0)
		r.set(func() { r.clients[2] = time.Now() })
		r.after(20*time.Second, 0)
		expect(Waiting{to, first, 1})
		r.after(20*time.Second, 0)
		expect()
		r.set(func() { r.failure = errors.New("no memory") })
		r.after(period, 0)
		if _, err := r.hold.Waiting(r.Context()); !errors.Is(err, r.failure) {
			r.Errorf("error %v, want %v", err, r.failure)
		}
	})
}

// TestPacketBeforeCommit has a packet that the kernel holds before the follower learns of the outage.
func TestPacketBeforeCommit(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		key := to
		key.Port++
		other := r.service(key, "other", "2", model.VerdictHold)[:1]
		r.commit(other...)
		r.after(time.Minute, 0)
		first := time.Now()
		r.send(to)
		r.after(2*period, 0)
		r.commit(append(other, r.service(to, "shop", "1", model.VerdictHold)...)...)
		r.after(2*period, 0)
		want := []Waiting{{to, first, 1}}
		if got, err := r.hold.Waiting(r.Context()); err != nil || !slices.Equal(got, want) {
			r.Errorf("waiting: %v, %v, want %v", got, err, want)
		}
	})
}

// TestDemand has a Service that is woken, used, and left alone.
func TestDemand(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		expect := func(after time.Duration, want ...int) {
			t.Helper()
			r.after(after, 0)
			var got []int
			for s, n := range r.hold.Demand() {
				if got = append(got, n.Clients); s != (model.ServiceName{Namespace: "shop", Name: "web"}) {
					r.Errorf("demand for %s", s)
				}
			}
			if !slices.Equal(got, want) {
				r.Errorf("demand %v, want %v", got, want)
			}
		}
		commit := func(verdict model.Verdict) {
			all := r.service(to, "shop", "1", verdict)
			for i := range all {
				all[i].Pool.ScaleToZero, all[i].Pool.Hold = true, time.Hour
			}
			r.commit(all...)
		}
		commit(model.VerdictHold)
		expect(time.Minute)
		r.send(to)
		r.set(func() { r.clients = map[int]time.Time{1: time.Now(), 2: time.Now(), 3: time.Now()} })
		expect(period, 1)
		expect(period, 3)
		r.set(func() { r.failure = errors.New("unreadable") })
		expect(period, 3)
		r.set(func() { r.failure = nil })
		expect(nft.WaitingTime, 1) // all have given up
		commit(model.VerdictBalance)
		expect(10*time.Second, 1)
		set := func(entries ...conntrack.Entry) {
			r.set(func() {
				r.tracked = nil
				for _, e := range entries {
					if e.Protocol = to.Protocol; !e.Reply.IsValid() {
						e.Reply = here[r.f]
					}
					if !e.Client.IsValid() {
						e.Client = elsewhere[r.f]
					}
					if e.Status == 0 {
						e.Status = 1 << 2 // IPS_ASSURED
					}
					r.tracked = append(r.tracked, e)
				}
			})
		}
		clusterIP, node := netip.AddrPortFrom(to.Addr, to.Port), netip.AddrPortFrom(nodes[r.f], 30080)
		ended := conntrack.Entry{Original: here[r.f]}
		set(
			conntrack.Entry{Original: clusterIP, Open: true}, conntrack.Entry{Original: node, Open: true},
			conntrack.Entry{Original: here[r.f], Open: true}, // translated elsewhere or nowhere
			conntrack.Entry{Original: clusterIP, Client: node, Open: true}, ended,
			conntrack.Entry{Original: here[r.f], Client: node, Open: true}, // the kubelet
			conntrack.Entry{Original: here[r.f], Open: true, Aborted: true},
			conntrack.Entry{Original: clusterIP, Reply: elsewhere[r.f], Open: true}, // counts there
			conntrack.Entry{Original: here[r.f], Open: true, Expires: 24*time.Hour - idleTime + time.Second},
			conntrack.Entry{Original: here[r.f], Open: true, Expires: shortTimeout}, // waits for an acknowledgement
			conntrack.Entry{Original: here[r.f], Open: true, Status: 1 << 1},
		)
		want := 6
		if to.Protocol != model.TCP {
			want++ // others have no handshake in common
		}
		expect(trackingPeriod+period, want)
		expect(time.Hour, want)
		set(ended)
		expect(trackingPeriod+period, 1)
		idle := conntrack.Entry{Original: here[r.f], Open: true, Expires: 24*time.Hour - idleTime}
		if set(idle); to.Protocol == model.TCP {
			expect(trackingPeriod + period)
		} else {
			expect(trackingPeriod+period, 1)
		}
		set()
		expect(trackingPeriod + period)
		commit(model.VerdictHold)
		expect(time.Hour)
	})
}

// TestSleeperHoldsAgain has a Service that scales to zero, and that nothing wakes within its hold.
func TestSleeperHoldsAgain(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		commit := func(verdict model.Verdict) {
			all := r.service(to, "shop", "1", verdict)
			all[0].Pool.ScaleToZero = true // both have the pool
			r.commit(all...)
		}
		expect := func(again, demand int) {
			t.Helper()
			if n := len(r.hold.Demand()); r.again != again || n != demand {
				r.Errorf("held again %d times, want %d; %d Services with demand, want %d", r.again, again, n, demand)
			}
		}
		commit(model.VerdictHold)
		for i := range 3 {
			r.send(to)
			r.after(11*time.Second, i+1)
			commit(model.VerdictReject)
			r.after(resumeTime-2*time.Second, i+1)
			expect(i, 1)
			r.after(2*time.Second, i+1)
			expect(i+1, 1)
			commit(model.VerdictHold)
			r.after(time.Hour, i+1) // no client waits
			expect(i+1, 0)
		}
		r.send(to)
		r.after(11*time.Second, 4)
		commit(model.VerdictReject)
		commit(model.VerdictBalance) // awake
		r.after(time.Hour, 4)
		expect(3, 0)
		if n := len(r.hold.frontends) + len(r.hold.pools) + len(r.hold.ended); n > 0 {
			r.Errorf("%d things remain", n)
		}
		r.commit(r.service(to, "shop", "1", model.VerdictReject)...)
		r.after(time.Hour, 4)
		expect(3, 0)
		commit(model.VerdictReject) // it scales to zero from now on
		r.after(resumeTime+period, 4)
		expect(4, 0)
	})
}

// TestClientsKeepUpDemand has clients of a Service that nothing wakes try again and again. Its demand has
// one beginning, until it has an endpoint.
func TestClientsKeepUpDemand(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		commit := func(verdict model.Verdict) {
			all := r.service(to, "shop", "1", verdict)
			all[0].Pool.ScaleToZero = true // both have the pool
			r.commit(all...)
		}
		var began time.Time
		for _, outage := range []int{0, 3} {
			began = time.Now()
			for i := range 3 {
				commit(model.VerdictHold)
				r.send(to)
				r.after(11*time.Second, outage+i+1)
				commit(model.VerdictReject)
				r.after(resumeTime, outage+i+1)
				got := r.hold.Demand()[model.ServiceName{Namespace: "shop", Name: "web"}]
				if want := (Demand{1, began}); got != want {
					r.Errorf("demand %v, want %v", got, want)
				}
			}
			commit(model.VerdictBalance)
			r.after(time.Second, outage+3)
		}
	})
}

// TestNoDemandForRemovedServices has a Service with demand that is deleted, or no longer scales to zero.
func TestNoDemandForRemovedServices(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		sleeper := func(verdict model.Verdict) []model.Frontend {
			all := r.service(to, "shop", "1", verdict)
			all[0].Pool.ScaleToZero, all[0].Pool.Hold = true, time.Hour // both have the pool
			return all
		}
		other := to
		other.Port++
		r.set(func() {
			r.tracked = []conntrack.Entry{{Original: here[r.f], Reply: here[r.f], Protocol: to.Protocol, Open: true, Status: 1 << 2}}
		})
		for _, remaining := range [][]model.Frontend{
			nil, r.service(to, "shop", "1", model.VerdictHold), r.service(other, "shop", "2", model.VerdictHold),
		} {
			r.commit(sleeper(model.VerdictHold)...)
			r.send(to)
			r.after(trackingPeriod+period, 0)
			if got := r.hold.Demand(); len(got) != 1 {
				r.Fatalf("demand %v, want one", got)
			}
			r.commit(remaining...)
			<-time.After(2 * period)
			synctest.Wait()
			if got := r.hold.Demand(); len(got) != 0 {
				r.Errorf("demand %v, want none", got)
			}
			r.commit()
		}
	})
}

// TestLostReportIsRepeated has an endpoint come and leave between a report and its commit.
func TestLostReportIsRepeated(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		r.commit(r.service(to, "shop", "1", model.VerdictHold)...)
		r.send(to)
		r.after(11*time.Second, 1)
		r.after(nft.HeldTime, 1)
		r.send(to)
		r.after(11*time.Second, 2)
		r.commit(r.service(to, "shop", "1", model.VerdictReject)...)
		if n := len(r.hold.pools) + len(r.hold.waiting) + len(r.hold.ended); n > 0 || r.again > 0 {
			r.Errorf("%d things remain, held again %d times", n, r.again)
		}
	})
}

func TestHoldContinuesWhileKernelIsNotReadable(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		r.commit(r.service(to, "shop", "1", model.VerdictHold)...)
		r.set(func() { r.failure = errors.New("no memory") })
		r.send(to)
		r.after(20*time.Second, 0)
		r.set(func() { r.failure = nil })
		r.after(time.Second, 1)
		if text := r.log.String(); strings.Count(text, "not readable") != 1 || !strings.Contains(text, "readable again") {
			r.Errorf("log:\n%s", text)
		}
	})
}

// TestSignalDespiteManyClients has a set of clients that takes the kernel a second to list.
func TestSignalDespiteManyClients(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		all := r.service(to, "shop", "1", model.VerdictHold)
		all[0].Pool.ScaleToZero = true // both have the pool
		r.set(func() { r.clientsTake = time.Second })
		r.commit(all...)
		r.after(5*time.Second, 0)
		for range 10 {
			r.send(to)
			r.after(period, 0)
			if len(r.hold.Demand()) == 0 {
				r.Error("no demand")
			}
			r.commit()
			r.after(time.Second, 0)
			r.commit(all...)
		}
	})
}

// TestTrackingNotReadable has connection tracking fail for a minute.
func TestTrackingNotReadable(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		all := r.service(to, "shop", "1", model.VerdictBalance)
		all[0].Pool.ScaleToZero = true // both have the pool
		r.commit(all...)
		r.set(func() { r.failure = errors.New("no memory") })
		r.after(time.Minute, 0)
		r.set(func() { r.failure = nil })
		r.after(time.Minute, 0)
		if text := r.log.String(); strings.Count(text, "not readable") != 1 || strings.Count(text, "readable again") != 1 {
			r.Errorf("log:\n%s", text)
		}
	})
}

// TestEventsOfNamespaceAreLimited has clients of all Services of a namespace, and of another one.
func TestEventsOfNamespaceAreLimited(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		var all []model.Frontend
		for i := range 100 {
			to.Addr = to.Addr.Next()
			namespace := "large"
			if i == 99 {
				namespace = "small"
			}
			all = append(all, r.service(to, namespace, fmt.Sprint(i), model.VerdictHold)[0])
			all[i].Service.Name = namespace
		}
		r.commit(all...)
		for _, f := range all {
			r.send(f.Match)
			r.after(50*time.Millisecond, 0)
		}
		r.after(period, 0)
		counts := map[string]int{}
		for _, e := range r.events {
			counts[e]++
		}
		if counts["small ClientsWaiting"] != 1 || counts["large ClientsWaiting"] > 21 {
			r.Errorf("events: %v", counts)
		}
	})
}

// TestShareOfNamespace has a namespace with more Services than may hold. To find those beyond its share
// takes a sort of all pools, which no commit causes before the next read is due.
func TestShareOfNamespace(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		all := r.service(to, "small", "1", model.VerdictHold)[:1]
		for range capacity {
			to.Addr = to.Addr.Next()
			all = append(all, r.service(to, "large", "1", model.VerdictHold)[:1]...)
		}
		r.commit(all...)
		if len(r.over) != 1 || r.over[0].Key != to {
			r.Errorf("%d pools over, want the last one of the large namespace", len(r.over))
		}
		last := all[len(all)-1]
		last.Verdict = model.VerdictReject
		all = append(all[:len(all)-1], last)
		r.commit(all...)
		r.after(time.Second+period/2, 1)
		to.Addr = to.Addr.Next()
		r.commit(append(all, r.service(to, "large", "1", model.VerdictHold)[0])...)
		r.after(0, 1)
		r.after(period, 2)
		all = append(all[:1:1], all[2:]...) // the namespace is within its share again
		r.commit(all...)
		if r.after(period, 2); r.again != 1 {
			r.Errorf("%d pools hold again, want the one within the share", r.again)
		}
		all[len(all)-1].Verdict = model.VerdictHold
		r.commit(all...)
		r.send(last.Match)
		r.after(11*time.Second, 3)
	})
}

// TestFullSet has clients of 40,000 frontends, which then have other ports, and one of another Service.
func TestFullSet(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		if r.protocol != model.UDP {
			return // it takes seconds
		}
		victim := r.service(to, "shop", "1", model.VerdictHold)[:1]
		for ports := range 2 {
			var all []model.Frontend
			var sent []model.Match
			key := to
			for i := range 40_000 {
				key.Port = uint16(1000 + i%10_000 + ports*10_000)
				if i%10_000 == 0 {
					key.Addr = key.Addr.Next()
				}
				all = append(all, r.service(key, "large", "1", model.VerdictHold)[0])
				all[i].Pool.Hold = time.Hour
				sent = append(sent, key)
			}
			r.commit(append(all, victim...)...)
			r.after(staleTime, 0)
			r.send(sent...)
			r.after(staleTime, 0)
		}
		r.send(to)
		r.after(10*time.Second+2*period, 1)
		if !strings.Contains(r.log.String(), "the node may not notice others") {
			r.Errorf("log:\n%s", r.log.String())
		}
	})
}

// TestShareCountsAddressesOfNodePorts has a node with ten addresses, at each of which it records node ports.
// At first they are of the other family.
func TestShareCountsAddressesOfNodePorts(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		c := sync.Committed{Full: true}
		addresses := func(f model.Family) {
			c.NodeAddrs = []netip.Addr{nodes[f]}
			for len(c.NodeAddrs) < 10 {
				c.NodeAddrs = append(c.NodeAddrs, c.NodeAddrs[len(c.NodeAddrs)-1].Next())
			}
		}
		for i := range 5000 {
			to.Port = uint16(1000 + i)
			s := r.service(to, "large", "1", model.VerdictHold)
			s[1].Match.Port = uint16(30000 + i)
			c.Set = append(c.Set, s...)
		}
		addresses(1 - r.f)
		r.hold.Follow(c)
		r.after(2*period, 0)
		addresses(r.f)
		r.hold.Follow(c)
		r.after(2*period, 5000-capacity/11)
	})
}

// TestSleepersDoNotTakeTurns has a namespace with more Services that scale to zero than may hold, one of
// which is over for a minute.
func TestSleepersDoNotTakeTurns(t *testing.T) {
	run(t, func(r *rig, to model.Match) {
		if r.protocol != model.UDP {
			return // it takes seconds
		}
		var all []model.Frontend
		for range capacity + 1 {
			to.Addr = to.Addr.Next()
			f := r.service(to, "large", "1", model.VerdictHold)[0]
			f.Pool.ScaleToZero = true
			all = append(all, f)
		}
		r.commit(all...)
		r.after(period, 1)
		r.send(all[0].Match)
		if r.after(11*time.Second, 2); r.again > 0 {
			r.Errorf("%d pools hold again", r.again)
		}
		if r.after(resumeTime, 2); r.again != 1 {
			r.Errorf("%d pools hold again, want the first one", r.again)
		}
	})
}
