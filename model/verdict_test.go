package model

import (
	"slices"
	"testing"
)

// verdictTest is a situation with the verdicts and serving pods under each policy.
type verdictTest struct {
	pods             []pod
	cluster, local   Verdict
	clusters, locals []int
}

// TestVerdictByPolicy has a row for each situation. Each policy decides separately
// whether terminating endpoints are used.
func TestVerdictByPolicy(t *testing.T) {
	tests := map[string]verdictTest{
		"no endpoint": {cluster: VerdictReject, local: VerdictReject},
		"none that may serve": {
			pods: []pod{notReady(1).on(here), terminating(2).on(here), terminating(3).on(there)}, cluster: VerdictReject, local: VerdictReject,
		},
		"ready here": {
			pods: []pod{ready(1).on(here), notReady(2).on(there)}, clusters: []int{1}, locals: []int{1},
		},
		"ready elsewhere": {
			pods: []pod{ready(2).on(there), notReady(1).on(here)}, clusters: []int{2}, local: VerdictDrop,
		},
		"ready on an unknown node": {pods: []pod{ready(2)}, clusters: []int{2}, local: VerdictDrop},
		"ready here and elsewhere": {
			pods: []pod{ready(1).on(here), ready(2).on(there)}, clusters: []int{1, 2}, locals: []int{1},
		},
		"serving terminating here": {
			pods: []pod{servingTerminating(1).on(here), terminating(2).on(there)}, clusters: []int{1}, locals: []int{1},
		},
		"serving terminating elsewhere": {
			pods: []pod{servingTerminating(2).on(there), terminating(1).on(here)}, clusters: []int{2}, local: VerdictDrop,
		},
		"serving terminating here and elsewhere": {
			pods: []pod{servingTerminating(1).on(here), servingTerminating(2).on(there)}, clusters: []int{1, 2}, locals: []int{1},
		},
		"serving terminating here, ready elsewhere": {
			pods: []pod{servingTerminating(1).on(here), ready(2).on(there)}, clusters: []int{2}, locals: []int{1},
		},
		"ready here, serving terminating elsewhere": {
			pods: []pod{ready(1).on(here), servingTerminating(2).on(there)}, clusters: []int{1}, locals: []int{1},
		},
		"ready and serving terminating, both here": {
			pods: []pod{ready(1).on(here), servingTerminating(3).on(here)}, clusters: []int{1}, locals: []int{1},
		},
		"terminating here, ready elsewhere": {
			pods: []pod{terminating(1).on(here), ready(2).on(there)}, clusters: []int{2}, local: VerdictDrop,
		},
	}
	policies := []TrafficPolicy{PolicyCluster, PolicyLocal}
	for name, test := range tests {
		for _, internal := range policies {
			for _, external := range policies {
				what := kindsTest{kinds[:], internal, external, false, false}.String()
				t.Run(name+" "+what, func(t *testing.T) {
					every(t, func(t *testing.T, f Family, p Protocol) { test.check(t, f, p, internal, external) })
				})
			}
		}
	}
}

func (test verdictTest) check(t *testing.T, f Family, p Protocol, internal, external TrafficPolicy) {
	s := webAllKinds(p, f)
	s.InternalPolicy, s.ExternalPolicy = internal, external
	got := byKind(t, Options{}.frontendsOf(&s, both(p, test.pods...), thisNode))
	var locals []int
	if internal == PolicyLocal || external == PolicyLocal {
		locals = test.locals
	}
	for _, k := range kinds {
		fe, policy := got[k], external
		if k == KindClusterIP {
			policy = internal
		}
		want := test.cluster
		if policy == PolicyLocal {
			want = test.local
		}
		if fe.Verdict != want {
			t.Errorf("%s: verdict %d, want %d", k, fe.Verdict, want)
		}
		if !slices.Equal(fe.Pool.Cluster, podPorts(f, test.clusters...)) || !slices.Equal(fe.Pool.Local, podPorts(f, locals...)) {
			t.Errorf("%s: pool %+v", k, *fe.Pool)
		}
		// For external addresses, pods and the node may use all endpoints.
		short := k != KindClusterIP && policy == PolicyLocal && len(test.clusters) > 0
		if served := want == VerdictBalance || short; fe.BypassesPolicy() != short || fe.Served() != served {
			t.Errorf("%s: short circuit %v, want %v; served %v, want %v", k, fe.BypassesPolicy(), short, fe.Served(), served)
		}
	}
}

// Flows to endpoints that still serve continue, whatever policies and hints select for
// new ones. UDP flows to others must be ended; for TCP this is an option.
func TestFlowEndpointsAreAllThatServe(t *testing.T) {
	pods := []pod{
		ready(1).on(there).zones(zoneB), ready(2).on(here).zones(zoneA), servingTerminating(3).on(there), servingTerminating(4).on(here),
		{5, Endpoint{Ready: true}},
		{6, Endpoint{Serving: true}},
		notReady(7).on(here), terminating(8).on(here),
	}
	for _, options := range []Options{{}, {TCPFlowEndpoints: true}} {
		for _, policy := range []TrafficPolicy{PolicyCluster, PolicyLocal} {
			every(t, func(t *testing.T, f Family, p Protocol) {
				s := webAllKinds(p, f)
				s.InternalPolicy, s.ExternalPolicy = policy, policy
				var want []int
				if p == UDP || p == TCP && options.TCPFlowEndpoints {
					want = []int{1, 2, 3, 4, 5, 6}
				}
				for _, fe := range options.frontendsOf(&s, both(p, pods...), thisNode) {
					if !slices.Equal(fe.Pool.FlowEndpoints, podPorts(f, want...)) {
						t.Errorf("%s: got %v", fe.Match, fe.Pool.FlowEndpoints)
					}
				}
			})
		}
	}
}
