package schedulers

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// weightSets are the weights of three endpoints on node-1, and of three on node-2. Some are
// reduced to few slots, some need one map for all, some are more than that has room for;
// and endpoints of weight 0 are drained.
var weightSets = [][6]uint16{
	{1, 2, 3, 4, 5, 6},
	{10, 1, 1, 1, 1, 1},
	{100, 50, 25, 100, 50, 25},
	{1, 1, 1, 1, 1, 2},
	{7, 7, 7, 1, 1, 1},
	{60, 40, 20, 10, 20, 10},
	{201, 200, 100, 99, 50, 30},
	{1000, 999, 100, 500, 200, 300},
	{0, 3, 1, 2, 1, 0},
	{0, 0, 5, 0, 3, 42},
}

// weighted are the Services of weightedScene: a scheduler each, or affinity.
var weighted = []string{"random", "rr", "sh", "mh", "affinity"}

// weightedService returns a Service whose external addresses have Local policy.
func weightedService(scheduler string, number int, spec string) daemon.Service {
	s := daemon.Service{
		Name: fmt.Sprintf("%s-%d", scheduler, number), Number: number, Kinds: daemon.Kinds, LocalOutside: true,
		EndpointSpec: spec, Scheduler: scheduler,
	}
	if scheduler == "affinity" {
		s.Scheduler, s.Affinity = "", time.Hour
	}
	return s
}

func specOf(servers []*lab.Host, weights [6]uint16) string {
	var words []string
	for i, h := range servers {
		words = append(words, fmt.Sprintf("%s/weight=%d", h.Name, weights[i]))
	}
	return strings.Join(words, " ")
}

// shareOf returns the expected shares of the first endpoints.
func shareOf(scheduler string, servers []*lab.Host, weights []uint16, f model.Family) map[string]float64 {
	out := map[string]float64{}
	for i, w := range weights {
		if w > 0 {
			out[servers[i].Name] = float64(w)
		}
	}
	if scheduler == "mh" && len(out) > 0 {
		clear(out)
		for _, name := range weightedTableOf(servers[:len(weights)], weights, f) {
			out[name]++
		}
	}
	return out
}

// TestConnectionsFollowWeights counts the connections of each endpoint, from many clients:
// to all endpoints at the ClusterIP, and to those on the node at a load balancer
// address.
func TestConnectionsFollowWeights(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 3, 3)
	folder := daemon.NewFolder(t, l)
	var services []daemon.Service
	for i, weights := range weightSets {
		for k, scheduler := range weighted {
			services = append(services, weightedService(scheduler, 1+i*len(weighted)+k, specOf(servers, weights)))
		}
	}
	folder.Put("web", services...)
	daemon.Start(t, l.Node, folder)
	flows := flowsOf(300, 1)
	for i, weights := range weightSets {
		transports := daemon.Transports()
		if testing.Short() || os.Getenv("KUBE_VMAP_OWN_MACHINE") != "" { // emulated, where all would take long
			transports = transports[i%len(transports):][:1]
		}
		for _, w := range transports {
			t.Run(fmt.Sprintf("%v/%s", weights, w), func(t *testing.T) {
				for k, scheduler := range weighted {
					s := services[i*len(weighted)+k]
					all := tally(askBy(t, l, w, s.AddrPort(l.Node, w.Family, model.KindClusterIP, 0), flows))
					checkShares(t, scheduler, all, shareOf(scheduler, servers, weights[:], w.Family))
					local := tally(askBy(t, l, w, s.AddrPort(l.Node, w.Family, model.KindLoadBalancerIP, 0), flows))
					checkShares(t, scheduler+", Local policy", local, shareOf(scheduler, servers, weights[:3], w.Family))
				}
			})
		}
	}
}

// checkShares checks the shares of endpoints, of which one may have all.
func checkShares(t *testing.T, name string, counts map[string]int, shares map[string]float64) {
	t.Helper()
	if len(shares) > 1 {
		t.Run(name, func(t *testing.T) { even(t, counts, shares) })
		return
	}
	for by := range counts {
		if shares[by] == 0 {
			t.Errorf("%s: %s has answered", name, by)
		}
	}
}
