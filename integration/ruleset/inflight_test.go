package ruleset

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
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

// changeWhile applies two states in turn while clients connect, as often as it can.
func changeWhile(t *testing.T, k *kernel.Kernel, states [2]nft.Change, connect func() (lab.Tally, error)) (tally lab.Tally, changes int) {
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

// TestNoHeldConnectionIsLostInACommit adds and removes the only endpoint of a Service that holds,
// thousands of times, while clients connect. No packet passes between the hooks untranslated: none is
// refused, and no flow is forwarded to the Service's address, where it would stay.
func TestNoHeldConnectionIsLostInACommit(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2})
	if err := l.Pods[0].ServeAll(daemon.TargetPort); err != nil {
		t.Fatal(err)
	}
	labtest.Run(t, l.Node.Host, manyRules(), "nft", "-f", "-")
	k := labtest.Kernel(t, l.Node.Host)
	externalIPs := [...]netip.Addr{lab.Nth(lab.OutsideRanges[model.IPv4], 99), lab.Nth(lab.OutsideRanges[model.IPv6], 99)}
	connections := 50_000
	if testing.Short() {
		connections = 1000
	}
	for _, w := range daemon.Transports() {
		t.Run(w.String(), func(t *testing.T) {
			clusterIP := model.Match{Family: w.Family, Addr: clusterIPs[w.Family], Protocol: w.Protocol, Port: 80}
			external := clusterIP
			external.Addr = externalIPs[w.Family]
			to := func(verdict model.Verdict, endpoints ...netip.AddrPort) nft.Change {
				pool := &model.Pool{Key: clusterIP, Hold: time.Hour, Cluster: endpoints}
				return nft.Change{Set: []model.Frontend{
					{Match: clusterIP, Pool: pool, Verdict: verdict}, {Match: external, Kind: model.KindExternalIP, Pool: pool, Verdict: verdict},
				}}
			}
			states := [...]nft.Change{
				to(model.VerdictHold), to(model.VerdictBalance, l.Pods[0].AddrPort(w.Family, daemon.TargetPort)),
			}
			for _, m := range []model.Match{clusterIP, external} {
				tally, changes := changeWhile(t, k, states, func() (lab.Tally, error) {
					return l.Pods[1].Burst(lab.Burst{
						Protocol: w.Protocol, To: netip.AddrPortFrom(m.Addr, m.Port), Count: connections, Workers: 8, Timeout: 5 * time.Millisecond,
					})
				})
				t.Logf("%s, in %d changes", tally, changes)
				if lost := tally.Refused + tally.Unreachable + tally.Reset; lost > 0 {
					t.Errorf("%d connections to %s are refused", lost, m)
				}
			}
			untranslated := 0
			err := conntrack.New(conntrack.Config{NetNS: l.Node.FD()}).Each(func() { untranslated = 0 }, func(e conntrack.Entry) {
				if e.Reply == e.Original && (e.Original.Addr() == external.Addr || e.Original.Addr() == clusterIP.Addr) {
					untranslated++
				}
			})
			if err != nil || untranslated > 0 {
				t.Errorf("%d flows are not translated, %v", untranslated, err)
			}
		})
	}
}
