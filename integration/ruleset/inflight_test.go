package ruleset

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
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
				changes := 0
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
				tally, err := l.Pods[4].Burst(lab.Burst{
					Protocol: w.Protocol, To: netip.AddrPortFrom(m.Addr, m.Port), Count: connections, Workers: 1, Timeout: patience,
				})
				stop()
				if err := changing.Wait(); err != nil {
					t.Fatal(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s, in %d changes", tally, changes)
				if lost := tally.Refused + tally.TimedOut + tally.Unreachable + tally.Reset; lost > 0 {
					t.Errorf("%d of %d connections are lost", lost, connections)
				}
			})
		}
	}
}
