package build_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/passivehealth"
)

// TestUnresponsiveEndpointsAreShown has four endpoints: of two that do not answer by themselves one is
// avoided, and of another one the node does not answer.
func TestUnresponsiveEndpointsAreShown(t *testing.T) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			unresponsive := make(chan []model.UnresponsiveEndpoints)
			c := config
			c.Unresponsive, c.PassiveChecks, c.MaxAvoidedPercent = unresponsive, model.PassiveChecksAvoid, 25
			events, key, at := one(f, p, 4)
			r := passivehealth.Report{CutOff: true}
			for n := range 4 {
				r.Endpoints = append(r.Endpoints, passivehealth.Unresponsive{
					Protocol: p, Endpoint: at[n], Since: then, Connections: n, Questions: 2,
					Services: []sync.Object{{Kind: "Service", Namespace: "shop", Name: "web", UID: "1"}},
				})
			}
			r.Endpoints = r.Endpoints[1:]
			r.Nodes = []passivehealth.SilentNode{{Name: "worker-3", Since: then, Endpoints: []netip.Addr{at[3].Addr()}}}
			set := model.UnresponsiveEndpoints{Key: key, Endpoints: at[1:]}
			v := statustest.Snapshot(t, c, kerneltest.New(), events, func() { unresponsive <- []model.UnresponsiveEndpoints{set} })
			d, err := build.New(build.Config{
				Snapshot:     func(context.Context) (sync.Snapshot, error) { return v, nil },
				Health:       func() (*nodestatus.Health, error) { return &nodestatus.Health{}, nil },
				Unresponsive: func(context.Context) (passivehealth.Report, error) { return r, nil },
			})(t.Context(), nodestatus.Query{})
			must(t, err)
			var got []string
			for _, e := range d.Services[0].Ports[0].Endpoints {
				text := e.Reason
				if u := e.Unresponsive; u != nil {
					text += fmt.Sprint(" ", u.Connections, " ", u.Questions, " ", u.Since.Equal(then))
				}
				got = append(got, text)
			}
			h := d.Health.PassiveHealth
			if !slices.Equal(got, []string{"", "Avoided 1 2 true", " 2 2 true", " 0 0 true"}) ||
				h.Endpoints != 3 || len(h.Nodes) != 1 || h.Nodes[0].Endpoints != 1 || !h.CutOff {
				t.Errorf("%s, %s: %q, health %+v", f, p, got, h)
			}
		}
	}
}
