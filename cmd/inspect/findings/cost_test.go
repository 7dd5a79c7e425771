package findings_test

import (
	"fmt"
	"testing"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
)

// big returns a document with Services, and one Service with as many ports and another with
// as many endpoints, with findings of several kinds at each.
func big(n int) *nodestatus.Document {
	slot := 0
	bad := func(i int) nodestatus.Endpoint {
		return nodestatus.Endpoint{Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Port: 8080, Reason: "NotReady", Conditions: &nodestatus.Conditions{}}
	}
	port := func(name string, endpoints ...nodestatus.Endpoint) nodestatus.Port {
		return nodestatus.Port{
			Name: name, Protocol: "TCP", Family: "IPv4", Scheduler: "sh", AffinitySeconds: 60,
			Frontends: []nodestatus.Frontend{{Address: "10.96.0.1", Port: 80, Kind: "ClusterIP", Policy: "Local", Verdict: nodestatus.VerdictBalance}},
			Endpoints: append(endpoints, nodestatus.Endpoint{Address: "10.0.0.1", Slot: &slot, Refused: 1}, nodestatus.Endpoint{Address: "10.0.0.2", Slot: &slot, Weight: 2}),
		}
	}
	d := &nodestatus.Document{Source: nodestatus.FromDaemon, Services: make([]nodestatus.Service, n)}
	many, wide := nodestatus.Service{Name: "ports"}, nodestatus.Service{Name: "endpoints"}
	var all []nodestatus.Endpoint
	for i := range n {
		d.Services[i] = nodestatus.Service{Namespace: "shop", Name: fmt.Sprint(i), Ports: []nodestatus.Port{port("", bad(i))}}
		many.Ports = append(many.Ports, port(fmt.Sprint(i), bad(i)))
		all = append(all, bad(i))
	}
	wide.Ports = []nodestatus.Port{port("", all...)}
	d.Services = append(d.Services, many, wide)
	return d
}

func TestCostIsLinear(t *testing.T) {
	const services, kinds = 10_000, 5
	small, large := big(services/10), big(services)
	if got, want := len(findings.Of(large)), kinds*(services+2)+1; got != want {
		t.Errorf("%d findings, want %d", got, want)
	}
	allocations := func(d *nodestatus.Document) float64 { return testing.AllocsPerRun(1, func() { findings.Of(d) }) }
	if a, b := allocations(small), allocations(large); b > 11*a {
		t.Errorf("%g allocations for %d Services, %g for %d", a, services/10, b, services)
	}
}
