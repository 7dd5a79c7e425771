package metrics

import (
	"fmt"
	"testing"

	"kube-vmap/model"
	"kube-vmap/sync/follow/hold"
)

// TestSeriesOfDemandAreBounded has a namespace with more Services than there are series, and another one.
func TestSeriesOfDemandAreBounded(t *testing.T) {
	m, demand := New(Config{}), map[model.ServiceName]hold.Demand{{Namespace: "z", Name: "web"}: {Clients: 3}}
	for i := range maxPorts + 100 {
		demand[model.ServiceName{Namespace: "a", Name: fmt.Sprint(i)}] = hold.Demand{Clients: 1}
	}
	m.AddDemand(func() map[model.ServiceName]hold.Demand { return demand })
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "kubevmap_service_demand" {
			continue
		}
		list := f.GetMetric()
		if last := list[len(list)-1]; len(list) != maxPorts || last.GetGauge().GetValue() != 3 {
			t.Errorf("%d series, the last one is %s", len(list), last)
		}
		return
	}
	t.Error("no series")
}
