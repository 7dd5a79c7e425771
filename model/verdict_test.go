package model

import (
	"slices"
	"testing"
)

// verdictTest is a situation and what policies of Cluster and of Local make of
// it: what happens to clients under each, and the pods that serve them.
type verdictTest struct {
	pods             []pod
	cluster, local   Verdict
	clusters, locals []int
}

// TestRejectOrDrop has a row for each situation. Whether terminating endpoints
// take over is decided for each policy by itself.
func TestRejectOrDrop(t *testing.T) {
	tests := map[string]verdictTest{
		"no endpoint": {cluster: VerdictReject, local: VerdictReject},
		"none that may serve": {
			pods: []pod{notReady(1).on(here), dying(2).on(here), dying(3).on(there)}, cluster: VerdictReject, local: VerdictReject,
		},
		"ready here": {
			pods: []pod{ready(1).on(here), notReady(2).on(there)}, clusters: []int{1}, locals: []int{1},
		},
		"ready elsewhere": {
			pods: []pod{ready(2).on(there), notReady(1).on(here)}, clusters: []int{2}, local: VerdictDrop,
		},
		"ready where nobody knows": {pods: []pod{ready(2)}, clusters: []int{2}, local: VerdictDrop},
		"ready here and elsewhere": {
			pods: []pod{ready(1).on(here), ready(2).on(there)}, clusters: []int{1, 2}, locals: []int{1},
		},
		"draining here": {
			pods: []pod{draining(1).on(here), dying(2).on(there)}, clusters: []int{1}, locals: []int{1},
		},
		"draining elsewhere": {
			pods: []pod{draining(2).on(there), dying(1).on(here)}, clusters: []int{2}, local: VerdictDrop,
		},
		"draining here and elsewhere": {
			pods: []pod{draining(1).on(here), draining(2).on(there)}, clusters: []int{1, 2}, locals: []int{1},
		},
		"draining here, ready elsewhere": {
			pods: []pod{draining(1).on(here), ready(2).on(there)}, clusters: []int{2}, locals: []int{1},
		},
		"ready here, draining elsewhere": {
			pods: []pod{ready(1).on(here), draining(2).on(there)}, clusters: []int{1}, locals: []int{1},
		},
		"ready and draining, both here": {
			pods: []pod{ready(1).on(here), draining(3).on(here)}, clusters: []int{1}, locals: []int{1},
		},
		"dying here, ready elsewhere": {
			pods: []pod{dying(1).on(here), ready(2).on(there)}, clusters: []int{2}, local: VerdictDrop,
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
	s := webEverywhere(p, f)
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
		// Outside, pods and the node are served wherever an endpoint is.
		short := k != KindClusterIP && policy == PolicyLocal && len(test.clusters) > 0
		if served := want == VerdictBalance || short; fe.ShortCircuit() != short || fe.Served() != served {
			t.Errorf("%s: short circuit %v, want %v; served %v, want %v", k, fe.ShortCircuit(), short, fe.Served(), served)
		}
	}
}

func TestHintsCountUnderAClusterPolicyOnly(t *testing.T) {
	tests := map[string]struct {
		pods             []pod
		clusters, locals []int
	}{
		"for zones": {
			[]pod{ready(1).on(here).zones(zoneB), ready(2).on(there).zones(zoneA), ready(3).on(there).zones(zoneB)},
			[]int{2},
			[]int{1},
		},
		"for nodes": {
			[]pod{ready(1).on(here).nodes(there), ready(2).on(there).nodes(here), ready(3).on(there).nodes(there)},
			[]int{2},
			[]int{1},
		},
		"but for terminating endpoints": {
			[]pod{draining(1).on(here).zones(zoneB), draining(2).on(there).zones(zoneA)},
			[]int{1, 2},
			[]int{1},
		},
		"if one is missing, for nobody": {
			[]pod{ready(1).on(here).zones(zoneB), ready(2).on(there).zones(zoneA), ready(3).on(there)},
			[]int{1, 2, 3},
			[]int{1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, f Family, p Protocol) {
				s := webEverywhere(p, f)
				for _, s.ExternalPolicy = range []TrafficPolicy{PolicyCluster, PolicyLocal} {
					var locals []int
					if s.ExternalPolicy == PolicyLocal {
						locals = test.locals
					}
					for _, fe := range (Options{}).frontendsOf(&s, both(p, test.pods...), thisNode) {
						if !slices.Equal(fe.Pool.Cluster, podPorts(f, test.clusters...)) ||
							!slices.Equal(fe.Pool.Local, podPorts(f, locals...)) {
							t.Errorf("%s under policy %d: %+v", fe.Match, fe.Policy, *fe.Pool)
						}
					}
				}
			})
		})
	}
}

// Flows of endpoints that still serve go on, whatever policies and hints say of
// new ones. Of UDP nobody else ends those of others; of TCP it is a choice.
func TestFlowsAreOfAllThatServe(t *testing.T) {
	pods := []pod{
		ready(1).on(there).zones(zoneB), ready(2).on(here).zones(zoneA), draining(3).on(there), draining(4).on(here),
		{5, Endpoint{Ready: true}},
		{6, Endpoint{Serving: true}},
		notReady(7).on(here), dying(8).on(here),
	}
	for _, options := range []Options{{}, {TCPFlowEndpoints: true}} {
		for _, policy := range []TrafficPolicy{PolicyCluster, PolicyLocal} {
			every(t, func(t *testing.T, f Family, p Protocol) {
				s := webEverywhere(p, f)
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
