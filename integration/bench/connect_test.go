package bench

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// maxConnectionRatio is how many times as long a connection may take through a ClusterIP
// as straight to the pod, and if it is counted as if it is not.
const maxConnectionRatio = 1.05

// way is a way for connections to the pod, and how Services are programmed meanwhile.
type way struct {
	config  nft.Config
	to      netip.AddrPort
	medians report.Times // one for each burst
}

// BenchmarkConnect measures connections between two pods of a node: straight to the pod, through a
// ClusterIP, and with connections counted, among few and among many Services.
func BenchmarkConnect(b *testing.B) {
	l := labtest.New(b, lab.Options{Pods: 2})
	server, client := l.Pods[0], l.Pods[1]
	_, err := server.Serve(model.TCP, podPort)
	must(b, err)
	k := labtest.Kernel(b, l.Node.Host)
	turns := 20
	if testing.Short() {
		turns = 8
	}
	for _, z := range []size{{10, 10}, standard} {
		c := newCluster(clusterIP, z)
		const served = 60_000 // beyond the numbers of any cluster
		service, slice := c.service(served), c.slice(served, 1)
		slice.Endpoints[0].Addr, slice.Endpoints[0].Node = server.Addr(model.IPv4), thisNode
		c.set(service, slice)
		want := c.all()
		counting := config
		counting.CountConnections = true
		to := netip.AddrPortFrom(service.ClusterIPs[0], servicePort)
		direct := way{config, server.AddrPort(model.IPv4, podPort), nil}
		through, counted := way{config, to, nil}, way{counting, to, nil}
		for range turns {
			for _, w := range []*way{&direct, &through, &counted} {
				have, err := k.Read()
				must(b, err)
				_, batch := nft.Adopt(w.config, have, want)
				_, err = k.Apply(batch)
				must(b, err)
				w.measure(b, client.Host)
			}
		}
		report.Line(b, c.String(), report.Time("ms-straight", direct.medians.Median(), 0),
			report.Ratios("x-through-Service", through.medians, direct.medians, maxConnectionRatio),
			report.Ratios("x-counted", counted.medians, through.medians, maxConnectionRatio))
	}
}

// measure adds a burst of connections, one after the other: connect, request, response, close.
// It is small, so that a disturbance affects all ways alike. The one before warms up, because only
// some ways begin after a change of the rules.
func (w *way) measure(b *testing.B, from *lab.Host) {
	b.Helper()
	var median time.Duration
	for _, questions := range []int{200, 1_000} {
		tally, err := from.Burst(lab.Burst{
			Protocol: model.TCP, To: w.to, Count: questions, Workers: 1, Timeout: 2 * time.Second,
		})
		must(b, err)
		if len(tally.Latencies) != questions {
			b.Fatalf("%d questions to %s: %s", questions, w.to, tally)
		}
		median = report.Times(tally.Latencies).Median()
	}
	w.medians.Add(median)
}
