package model

import (
	"slices"
	"testing"
)

// selection is the expected endpointLists of a test, as numbers of pods.
type selection struct {
	cluster, local []int
	hairpin        []int
	anyUsable      bool
}

// selectTest is a set of pods and the expected selection.
type selectTest struct {
	node Node // thisNode if empty
	pods []pod
	want selection
}

// run selects among the pods in every family and for every protocol, in the given
// order and in reverse.
func (test selectTest) run(t *testing.T) {
	if test.node == (Node{}) {
		test.node = thisNode
	}
	backwards := slices.Clone(test.pods)
	slices.Reverse(backwards)
	for _, f := range Families {
		for _, p := range Protocols {
			for _, pods := range [][]pod{test.pods, backwards} {
				got := selectEndpoints(httpPort(p), f, []EndpointSlice{webSlice(f, p, pods...)}, test.node)
				checkSelection(t, f, got, test.want)
			}
		}
	}
}

func runSelectTests(t *testing.T, tests map[string]selectTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, test.run)
	}
}

func checkSelection(t *testing.T, f Family, got endpointLists, want selection) {
	t.Helper()
	if !slices.Equal(got.cluster, podPorts(f, want.cluster...)) {
		t.Errorf("cluster: got %v, want pods %v", got.cluster, want.cluster)
	}
	if !slices.Equal(got.local, podPorts(f, want.local...)) {
		t.Errorf("local: got %v, want pods %v", got.local, want.local)
	}
	if !slices.Equal(got.hairpin, podIPs(f, want.hairpin...)) {
		t.Errorf("on this node: got %v, want pods %v", got.hairpin, want.hairpin)
	}
	if got.anyUsable != want.anyUsable {
		t.Errorf("anyUsable: got %v", got.anyUsable)
	}
}

func TestSelectionByConditions(t *testing.T) {
	runSelectTests(t, map[string]selectTest{
		"no endpoints": {},
		"a ready endpoint serves": {
			pods: []pod{ready(1)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"an endpoint that is not ready never serves": {
			pods: []pod{notReady(1).on(here)},
		},
		"an endpoint that is not ready stays out among others": {
			pods: []pod{ready(1), notReady(2), ready(3)},
			want: selection{cluster: []int{1, 3}, anyUsable: true},
		},
		"an endpoint that is serving, but neither ready nor terminating, never serves": {
			pods: []pod{{1, Endpoint{Serving: true, Node: here}}},
		},
		"a terminating endpoint stays out while another is ready": {
			pods: []pod{ready(1), servingTerminating(2), terminating(3)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"if none is ready, those that are terminating but serving do": {
			pods: []pod{servingTerminating(1), servingTerminating(2), terminating(3), notReady(4)},
			want: selection{cluster: []int{1, 2}, anyUsable: true},
		},
		"if all are terminating and none is serving, none serves": {
			pods: []pod{terminating(1).on(here), terminating(2)},
		},
		"ready is enough, even when terminating (publishNotReadyAddresses)": {
			pods: []pod{{1, Endpoint{Ready: true, Terminating: true}}, servingTerminating(2)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"ready is enough, even when not serving": {
			pods: []pod{{1, Endpoint{Ready: true}}},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
	})
}

func TestLocalListIsOfThisNode(t *testing.T) {
	runSelectTests(t, map[string]selectTest{
		"all endpoints are local": {
			pods: []pod{ready(1).on(here), ready(2).on(here)},
			want: selection{cluster: []int{1, 2}, local: []int{1, 2}, hairpin: []int{1, 2}, anyUsable: true},
		},
		"some endpoints are local": {
			pods: []pod{ready(1).on(here), ready(2).on(there)},
			want: selection{cluster: []int{1, 2}, local: []int{1}, hairpin: []int{1}, anyUsable: true},
		},
		"all endpoints are remote": {
			pods: []pod{ready(1).on(there), ready(2).on(there)},
			want: selection{cluster: []int{1, 2}, anyUsable: true},
		},
		"an endpoint without a node is nowhere": {
			pods: []pod{ready(1)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"a node without a name hosts nothing": {
			node: Node{Zone: zoneA},
			pods: []pod{ready(1), ready(2).on(here)},
			want: selection{cluster: []int{1, 2}, anyUsable: true},
		},
		"a local endpoint that is not ready does not serve": {
			pods: []pod{notReady(1).on(here), ready(2).on(there)},
			want: selection{cluster: []int{2}, anyUsable: true},
		},
		"a terminating local endpoint serves if no local one is ready, whoever else is": {
			pods: []pod{servingTerminating(1).on(here), ready(2).on(there)},
			want: selection{cluster: []int{2}, local: []int{1}, hairpin: []int{1}, anyUsable: true},
		},
		"a terminating local endpoint stays out while a local one is ready": {
			pods: []pod{servingTerminating(1).on(here), ready(2).on(here), servingTerminating(3).on(there)},
			want: selection{cluster: []int{2}, local: []int{2}, hairpin: []int{2}, anyUsable: true},
		},
		"only terminating endpoints, here and elsewhere": {
			pods: []pod{servingTerminating(1).on(here), servingTerminating(2).on(there), terminating(3).on(here)},
			want: selection{cluster: []int{1, 2}, local: []int{1}, hairpin: []int{1}, anyUsable: true},
		},
		"only terminating endpoints, elsewhere": {
			pods: []pod{servingTerminating(1).on(there), terminating(2).on(here)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"a terminating local endpoint that no longer serves does not": {
			pods: []pod{terminating(1).on(here), ready(2).on(there)},
			want: selection{cluster: []int{2}, anyUsable: true},
		},
	})
}

func TestZoneHintsNarrowClusterList(t *testing.T) {
	runSelectTests(t, map[string]selectTest{
		"to the endpoints hinted for this zone": {
			pods: []pod{ready(1).zones(zoneA), ready(2).zones(zoneB), ready(3).zones("zone-c"), ready(4).zones(zoneA)},
			want: selection{cluster: []int{1, 4}, anyUsable: true},
		},
		"with several zones in a hint": {
			pods: []pod{ready(1).zones(zoneA, zoneB, "zone-c"), ready(2).zones(zoneB, "zone-c"), ready(3).zones(zoneB, zoneA)},
			want: selection{cluster: []int{1, 3}, anyUsable: true},
		},
		"but not by a part of a zone's name": {
			pods: []pod{ready(1).zones("zone-aa"), ready(2).zones("zone"), ready(3).zones(zoneB)},
			want: selection{cluster: []int{1, 2, 3}, anyUsable: true},
		},
		"but not if one ready endpoint has none": {
			pods: []pod{ready(1).zones(zoneA), ready(2).zones(zoneB), ready(3)},
			want: selection{cluster: []int{1, 2, 3}, anyUsable: true},
		},
		"whatever endpoints hint that are not ready": {
			pods: []pod{ready(1).zones(zoneA), ready(2).zones(zoneB), notReady(3), servingTerminating(4), notReady(5).zones(zoneA)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"but not if no hint names this zone": {
			pods: []pod{ready(1).zones(zoneB), ready(2).zones("zone-c")},
			want: selection{cluster: []int{1, 2}, anyUsable: true},
		},
		"but not if only an endpoint that is not ready is hinted for this zone": {
			pods: []pod{ready(1).zones(zoneB), notReady(2).zones(zoneA), servingTerminating(3).zones(zoneA)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"but not on a node without a zone": {
			node: Node{Name: here},
			pods: []pod{ready(1).zones(zoneA), ready(2).zones(zoneB)},
			want: selection{cluster: []int{1, 2}, anyUsable: true},
		},
		"even if the only one is elsewhere and others are local": {
			pods: []pod{ready(1).on(there).zones(zoneA), ready(2).on(here).zones(zoneB)},
			want: selection{cluster: []int{1}, local: []int{2}, hairpin: []int{2}, anyUsable: true},
		},
		"and the local list does not follow": {
			pods: []pod{ready(1).on(here).zones(zoneA), ready(2).on(here).zones(zoneB), ready(3).on(there).zones(zoneA)},
			want: selection{cluster: []int{1, 3}, local: []int{1, 2}, hairpin: []int{1, 2}, anyUsable: true},
		},
		"but not if all terminate": {
			pods: []pod{servingTerminating(1).zones(zoneA), servingTerminating(2).zones(zoneB)},
			want: selection{cluster: []int{1, 2}, anyUsable: true},
		},
	})
}

func TestNodeHintsComeBeforeZoneHints(t *testing.T) {
	runSelectTests(t, map[string]selectTest{
		"if all endpoints have both": {
			pods: []pod{
				ready(1).nodes(here).zones(zoneA), ready(2).nodes(there).zones(zoneA), ready(3).nodes(there).zones(zoneB),
			},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"with several nodes in a hint": {
			pods: []pod{ready(1).nodes(here, there), ready(2).nodes(there), ready(3).nodes("a", here, "z")},
			want: selection{cluster: []int{1, 3}, anyUsable: true},
		},
		"whatever node the endpoint runs on": {
			pods: []pod{ready(1).on(here).nodes(there), ready(2).on(there).nodes(here)},
			want: selection{cluster: []int{2}, local: []int{1}, hairpin: []int{1}, anyUsable: true},
		},
		"and without a zone": {
			node: Node{Name: here},
			pods: []pod{ready(1).nodes(here), ready(2).nodes(there)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"even if the zone's are not complete": {
			pods: []pod{ready(1).nodes(here), ready(2).nodes(there).zones(zoneA)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"but not if one ready endpoint has none": {
			pods: []pod{ready(1).nodes(here).zones(zoneA), ready(2).nodes(there).zones(zoneA), ready(3).zones(zoneB)},
			want: selection{cluster: []int{1, 2}, anyUsable: true},
		},
		"but not if no hint names this node": {
			pods: []pod{ready(1).nodes(there).zones(zoneA), ready(2).nodes(there).zones(zoneB)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
		"but not on a node without a name": {
			node: Node{Zone: zoneA},
			pods: []pod{ready(1).nodes(here).zones(zoneB), ready(2).nodes(there).zones(zoneA)},
			want: selection{cluster: []int{2}, anyUsable: true},
		},
		"and if neither can be used, all serve": {
			pods: []pod{ready(1).nodes(here).zones(zoneA), ready(2).zones(zoneB), ready(3).nodes(there)},
			want: selection{cluster: []int{1, 2, 3}, anyUsable: true},
		},
		"whatever endpoints hint that are not ready": {
			pods: []pod{ready(1).nodes(here), ready(2).nodes(there), notReady(3), servingTerminating(4).nodes(here)},
			want: selection{cluster: []int{1}, anyUsable: true},
		},
	})
}

func TestHintsNeverNarrowLocalList(t *testing.T) {
	runSelectTests(t, map[string]selectTest{
		"of ready endpoints": {
			pods: []pod{
				ready(1).on(here).nodes(there).zones(zoneB),
				ready(2).on(here).nodes(here).zones(zoneA),
				ready(3).on(there).nodes(there).zones(zoneB),
			},
			want: selection{cluster: []int{2}, local: []int{1, 2}, hairpin: []int{1, 2}, anyUsable: true},
		},
		"of terminating endpoints": {
			pods: []pod{
				servingTerminating(1).on(here).zones(zoneB), servingTerminating(2).on(here).zones(zoneA), ready(3).on(there).zones(zoneA),
			},
			want: selection{cluster: []int{3}, local: []int{1, 2}, hairpin: []int{1, 2}, anyUsable: true},
		},
	})
}
