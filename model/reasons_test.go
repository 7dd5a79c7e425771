package model

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// TestEndpointHasNoReasonIfItServes compares with the selection, of random
// slices, on several nodes.
func TestEndpointHasNoReasonIfItServes(t *testing.T) {
	ports := []ServicePortName{{web, "http", TCP}, {web, "dns", UDP}, {web, "", SCTP}, {web, "alias", TCP}, {web, "none", TCP}}
	nodes := []Node{{Name: here, Zone: zoneA}, {Name: there}, {Zone: zoneB}, {}}
	serving := 0
	for seed := range fewerIfShort(1000) {
		random := rand.New(rand.NewPCG(seed, 0))
		h := &history{T: t, bytes: randomBytes(seed, 300), size: smallHistory}
		from := make([]EndpointSlice, random.IntN(5))
		for i := range from {
			from[i] = h.slice()
		}
		for _, port := range ports {
			for _, f := range Families {
				for _, n := range nodes {
					held := seed%2 == 0
					sel := selectEndpoints(port, f, from, n, held)
					serving += len(sel.cluster) + len(sel.local)
					got := ExplainSelection(port, f, from, n, nil, held)
					checkServing(t, got, sel)
					checkEveryEndpoint(t, got, f, from)
				}
			}
		}
	}
	if serving < 500 { // 863 of the seeds with -short
		t.Errorf("only %d endpoints served in total", serving)
	}
}

// checkServing checks that the endpoints without a reason are the selected ones, each
// once.
func checkServing(t *testing.T, got []EndpointExplanation, sel endpointLists) {
	t.Helper()
	var cluster, local []netip.AddrPort
	for _, c := range got {
		if c.Cluster == ReasonNone {
			cluster = append(cluster, c.AddrPort)
		}
		if c.Local == ReasonNone {
			local = append(local, c.AddrPort)
		}
		if c.Fallback != (!c.Ready && (c.Cluster == ReasonNone || c.Local == ReasonNone)) {
			t.Errorf("%+v of %+v: fallback is wrong", c, *c.Endpoint)
		}
	}
	if !slices.Equal(cluster, sel.cluster) || !slices.Equal(local, sel.local) {
		t.Fatalf("without a reason: %v, local %v; selected: %v, local %v", cluster, local, sel.cluster, sel.local)
	}
}

// checkEveryEndpoint checks that exactly the addresses of the family are listed, those without the
// port once.
func checkEveryEndpoint(t *testing.T, got []EndpointExplanation, f Family, from []EndpointSlice) {
	t.Helper()
	there := map[netip.Addr]bool{}
	for i, c := range got {
		there[c.AddrPort.Addr()] = true
		if c.AddrPort.Port() == 0 && i+1 < len(got) && got[i+1].AddrPort.Addr() == c.AddrPort.Addr() {
			t.Errorf("%v is listed again", c.AddrPort)
		}
		if FamilyOf(c.AddrPort.Addr()) != f {
			t.Errorf("%v is not %s", c.AddrPort, f)
		}
		if (c.AddrPort.Port() == 0) != (c.Cluster == ReasonNoPort) {
			t.Errorf("%v has the reason %v", c.AddrPort, c.Cluster)
		}
	}
	for _, s := range from {
		for _, e := range s.Endpoints {
			if s.Family == f && !there[e.Addr] {
				t.Errorf("%v is missing", e.Addr)
			}
		}
	}
}

func TestReasonOfEndpoint(t *testing.T) {
	type reasons struct{ cluster, local Reason }
	tests := map[string]struct {
		pods []pod
		want []reasons // of pod 1
	}{
		"ready, here":                            {[]pod{ready(1).on(here)}, []reasons{{ReasonNone, ReasonNone}}},
		"ready, elsewhere":                       {[]pod{ready(1).on(there)}, []reasons{{ReasonNone, ReasonNotLocal}}},
		"ready, nowhere":                         {[]pod{ready(1)}, []reasons{{ReasonNone, ReasonNotLocal}}},
		"not ready":                              {[]pod{notReady(1).on(here), ready(2)}, []reasons{{ReasonNotReady, ReasonNotReady}}},
		"not ready, without traits":              {[]pod{notReady(1).zones(zoneB).nodes(there), ready(2)}, []reasons{{ReasonNotReady, ReasonNotReady}}},
		"terminating":                            {[]pod{terminating(1).on(here), servingTerminating(2)}, []reasons{{ReasonNotReady, ReasonNotReady}}},
		"serving terminating, another is ready":  {[]pod{servingTerminating(1).on(here), ready(2).on(here)}, []reasons{{ReasonServingTerminating, ReasonServingTerminating}}},
		"serving terminating, the last here":     {[]pod{servingTerminating(1).on(here), ready(2)}, []reasons{{ReasonServingTerminating, ReasonNone}}},
		"serving terminating, none is ready":     {[]pod{servingTerminating(1).on(here), notReady(2)}, []reasons{{ReasonNone, ReasonNone}}},
		"serving terminating elsewhere":          {[]pod{servingTerminating(1).on(there), ready(2).on(here)}, []reasons{{ReasonServingTerminating, ReasonNotLocal}}},
		"hinted for another zone":                {[]pod{ready(1).on(here).zones(zoneB), ready(2).zones(zoneA)}, []reasons{{ReasonOtherZones, ReasonNone}}},
		"hinted for another node":                {[]pod{ready(1).nodes(there), ready(2).nodes(here)}, []reasons{{ReasonOtherNodes, ReasonNotLocal}}},
		"of duplicates the one that is not used": {[]pod{ready(1).on(here), servingTerminating(1).on(here)}, []reasons{{ReasonNone, ReasonNone}, {ReasonDuplicate, ReasonDuplicate}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, f := range Families {
				for _, p := range Protocols {
					var got []reasons
					slice := webSlice(f, p, test.pods...)
					slice.Weight = 3
					for _, c := range ExplainSelection(httpPort(p), f, []EndpointSlice{slice}, thisNode, nil, false) {
						if c.AddrPort.Addr() == podIP(f, 1) && c.Weight == slice.Weight {
							got = append(got, reasons{c.Cluster, c.Local})
						}
					}
					if !slices.Equal(got, test.want) {
						t.Errorf("%s %s: got %v, want %v", f, p, got, test.want)
					}
				}
			}
		})
	}
}

func TestReasonOfDrained(t *testing.T) {
	every(t, func(t *testing.T, f Family, p Protocol) {
		s := webSlice(f, p, ready(1).on(here), servingTerminating(2), notReady(3))
		s.Drained, s.Weight = true, 7
		want := []Reason{ReasonDrained, ReasonDrained, ReasonNotReady}
		for i, e := range ExplainSelection(httpPort(p), f, []EndpointSlice{s}, thisNode, nil, false) {
			if e.Cluster != want[i] || e.Local != want[i] || e.Weight != 0 {
				t.Errorf("endpoint %d: %+v, want %v", i+1, e, want[i])
			}
		}
	})
}
