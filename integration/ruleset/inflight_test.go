package ruleset

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/flows"
)

// patience is how long to wait for an answer.
const patience = 5 * time.Second

// clusterIPs are those of the Service in the following test.
var clusterIPs = [...]netip.Addr{netip.MustParseAddr("10.96.0.99"), netip.MustParseAddr("fd00:10:96::99")}

// TestNoConnectionIsLostInACommit replaces the endpoints of a Service, three by one and one by
// three, thousands of times a second while a client connects. No other Service has as many,
// so that chains come and go with each change.
func TestNoConnectionIsLostInACommit(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 5})
	for _, p := range l.Pods[:4] {
		if err := p.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
	}
	k := labtest.Kernel(t, l.Node.Host)
	for name, affinity := range map[string]time.Duration{"any endpoint": 0, "session affinity": time.Hour} {
		connections := 3000
		if affinity > 0 || testing.Short() {
			connections = 1000
		}
		for _, w := range daemon.Transports() {
			t.Run(name+" "+w.String(), func(t *testing.T) {
				m := model.Match{Family: w.Family, Addr: clusterIPs[w.Family], Protocol: w.Protocol, Port: 80}
				to := func(pods ...*lab.Pod) nft.Change {
					pool := &model.Pool{Key: m, Affinity: affinity}
					for _, p := range pods {
						pool.Cluster = append(pool.Cluster, p.AddrPort(w.Family, daemon.TargetPort))
					}
					return nft.Change{Set: []model.Frontend{{Match: m, Pool: pool}}}
				}
				states := [...]nft.Change{to(l.Pods[:3]...), to(l.Pods[3])}
				tally, changes := changeWhile(t, k, states, func() (lab.Tally, error) {
					return l.Pods[4].Burst(lab.Burst{
						Protocol: w.Protocol, To: netip.AddrPortFrom(m.Addr, m.Port), Count: connections, Workers: 1, Timeout: patience,
					})
				})
				t.Logf("%s, in %d changes", tally, changes)
				if lost := tally.Refused + tally.TimedOut + tally.Unreachable + tally.Reset; lost > 0 {
					t.Errorf("%d of %d connections are lost", lost, connections)
				}
			})
		}
	}
}

// changeWhile applies two states in turn while clients connect, as often as it can. Followers follow.
func changeWhile(
	t *testing.T, k *kernel.Kernel, states [2]nft.Change, connect func() (lab.Tally, error), followers ...sync.Follower,
) (tally lab.Tally, changes int) {
	t.Helper()
	have, err := k.Read()
	if err != nil {
		t.Fatal(err)
	}
	rules, batch := nft.Adopt(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}, have, states[0])
	if _, err := k.Apply(batch); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var changing errgroup.Group
	changing.Go(func() error {
		for ; ctx.Err() == nil; changes++ {
			plan := rules.Plan(states[(changes+1)%2])
			if _, err := k.Apply(plan.Batch); err != nil {
				return err
			}
			rules.Commit(plan)
			for _, f := range followers {
				f.Follow(sync.Committed{Set: states[(changes+1)%2].Set})
			}
		}
		return nil
	})
	tally, err = connect()
	stop()
	if err := errors.Join(err, changing.Wait()); err != nil {
		t.Fatal(err)
	}
	return tally, changes
}

// manyRules are rules of another program, between the hooks that translate packets and those that hold them.
func manyRules() string {
	return "table inet other {\n chain prerouting {\n  type filter hook prerouting priority 0;\n" +
		strings.Repeat("  meta mark 0x77777777 drop\n", 1000) + " }\n}\n"
}

// A race has a pod that serves, one that connects, and [manyRules]. The Service has an external address
// that no host has.
type race struct {
	*lab.Lab
	kernel              *kernel.Kernel
	conntrack           *conntrack.Conntrack
	connections         int
	clusterIP, external model.Match
	states              [2]nft.Change // without and with an endpoint
}

func newRace(t *testing.T) *race {
	l := labtest.New(t, lab.Options{Pods: 2})
	if err := l.Pods[0].ServeAll(daemon.TargetPort); err != nil {
		t.Fatal(err)
	}
	labtest.Run(t, l.Node.Host, manyRules(), "nft", "-f", "-")
	r := &race{
		Lab: l, kernel: labtest.Kernel(t, l.Node.Host), conntrack: conntrack.New(conntrack.Config{NetNS: l.Node.FD()}), connections: 50_000,
	}
	if testing.Short() {
		r.connections = 1000
	}
	return r
}

func (r *race) use(w daemon.Transport, hold time.Duration, without model.Verdict) {
	r.clusterIP = model.Match{Family: w.Family, Addr: clusterIPs[w.Family], Protocol: w.Protocol, Port: 80}
	r.external = r.clusterIP
	r.external.Addr = lab.Nth(lab.OutsideRanges[w.Family], 99)
	for i, verdict := range []model.Verdict{without, model.VerdictBalance} {
		pool := &model.Pool{Key: r.clusterIP, Hold: hold}
		if verdict == model.VerdictBalance {
			pool.Cluster = []netip.AddrPort{r.Pods[0].AddrPort(w.Family, daemon.TargetPort)}
			pool.FlowEndpoints = pool.Cluster
		}
		r.states[i] = nft.Change{Set: []model.Frontend{
			{Match: r.clusterIP, Pool: pool, Verdict: verdict}, {Match: r.external, Kind: model.KindExternalIP, Pool: pool, Verdict: verdict},
		}}
	}
}

// connect connects to a frontend while its endpoint comes and goes.
func (r *race) connect(t *testing.T, to model.Match, followers ...sync.Follower) lab.Tally {
	t.Helper()
	tally, changes := changeWhile(t, r.kernel, r.states, func() (lab.Tally, error) {
		return r.Pods[1].Burst(lab.Burst{
			Protocol: to.Protocol, To: netip.AddrPortFrom(to.Addr, to.Port), Count: r.connections, Workers: 8, Timeout: 5 * time.Millisecond,
		})
	}, followers...)
	t.Logf("%s, in %d changes", tally, changes)
	return tally
}

// untranslated counts flows to the Service that are not translated.
func (r *race) untranslated(t *testing.T) (n int) {
	t.Helper()
	err := r.conntrack.Each(func() { n = 0 }, func(e conntrack.Entry) {
		if a := e.Original.Addr(); e.Reply == e.Original && (a == r.external.Addr || a == r.clusterIP.Addr) {
			n++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNoHeldConnectionIsLostInACommit adds and removes the only endpoint of a Service that holds,
// thousands of times, while clients connect. No packet passes between the hooks untranslated: none is
// refused, and no flow is forwarded to the Service's address, where it would stay.
func TestNoHeldConnectionIsLostInACommit(t *testing.T) {
	r := newRace(t)
	for _, w := range daemon.Transports() {
		t.Run(w.String(), func(t *testing.T) {
			r.use(w, time.Hour, model.VerdictHold)
			for _, m := range []model.Match{r.clusterIP, r.external} {
				tally := r.connect(t, m)
				if lost := tally.Refused + tally.Unreachable + tally.Reset; lost > 0 {
					t.Errorf("%d connections to %s are refused", lost, m)
				}
			}
			if n := r.untranslated(t); n > 0 {
				t.Errorf("%d flows are not translated", n)
			}
		})
	}
}

// TestFlowsOfTheFirstEndpointEnd does the same with a Service that rejects. Flows that pass between the
// hooks are deleted.
func TestFlowsOfTheFirstEndpointEnd(t *testing.T) {
	r := newRace(t)
	r.connections *= 10 // refused ones take less time
	const conntrack = "net.netfilter.nf_conntrack_"
	labtest.Run(t, r.Node.Host, "", "sysctl", "-w", conntrack+"tcp_timeout_syn_sent=86400", conntrack+"udp_timeout=86400",
		conntrack+"sctp_timeout_cookie_wait=86400")
	for _, w := range daemon.Transports() {
		t.Run(w.String(), func(t *testing.T) {
			r.use(w, 0, model.VerdictReject)
			deleted, started := 0, make(chan struct{}, 1)
			f := flows.New(flows.Config{Reconciled: func(_ model.Family, n int, _ time.Duration) {
				deleted += n
				select {
				case started <- struct{}{}:
				default:
				}
			}}, r.conntrack, slog.New(slog.DiscardHandler))
			f.Follow(sync.Committed{Full: true, Set: r.states[0].Set})
			var following errgroup.Group
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			following.Go(func() error { return f.Run(ctx) })
			<-started // after the start it checks all flows
			r.connect(t, r.external, f)
			eventually.Holds(t, "all flows are translated", func() bool { return r.untranslated(t) == 0 })
			stop()
			_ = following.Wait() // so deleted is known
			t.Logf("%d flows deleted", deleted)
		})
	}
}
