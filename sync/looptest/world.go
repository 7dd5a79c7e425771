package looptest

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// config is that of every loop here.
var config = sync.Config{
	NodeName: "node-1",
	Rules: nft.Config{
		MasqueradeMark: nft.DefaultMasqueradeMark, CountConnections: true,
		Pods: [...]netip.Prefix{
			model.IPv4: netip.MustParsePrefix("10.244.0.0/16"),
			model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
		},
	},
}

// world is what there is to know: what a source would deliver to a loop that
// begins now, and what it has not delivered yet.
type world struct {
	services map[model.ServiceName]model.Service
	slices   map[model.EndpointSliceName]model.EndpointSlice
	node     model.Node
	cidrs    []netip.Prefix
	unsaid   []sync.Event
}

func newWorld() *world {
	return &world{
		services: map[model.ServiceName]model.Service{},
		slices:   map[model.EndpointSliceName]model.EndpointSlice{},
		node:     model.Node{Name: config.NodeName},
	}
}

// say changes the world.
func (w *world) say(e sync.Event) {
	w.unsaid = append(w.unsaid, e)
	switch e := e.(type) {
	case sync.SetService:
		w.services[e.Service.Name] = e.Service
	case sync.DeleteService:
		delete(w.services, e.Name)
	case sync.SetSlice:
		w.slices[e.Slice.Name] = e.Slice
	case sync.DeleteSlice:
		delete(w.slices, e.Name)
	case sync.SetNode:
		w.node = e.Node
	case sync.SetServiceCIDRs:
		w.cidrs = e.CIDRs
	}
}

// burst takes what was not said yet.
func (w *world) burst() []sync.Event {
	events := w.unsaid
	w.unsaid = nil
	return events
}

// all is the first burst of a source, always the same for the same world.
func (w *world) all() []sync.Event {
	w.unsaid = nil
	events := []sync.Event{sync.SetNode{Node: w.node}, sync.SetServiceCIDRs{CIDRs: w.cidrs}}
	for _, name := range w.serviceNames() {
		events = append(events, sync.SetService{Service: w.services[name]})
	}
	for _, name := range w.sliceNames() {
		events = append(events, sync.SetSlice{Slice: w.slices[name]})
	}
	return events
}

func (w *world) serviceNames() []model.ServiceName {
	return slices.SortedFunc(maps.Keys(w.services), model.ServiceName.Compare)
}

func (w *world) sliceNames() []model.EndpointSliceName {
	return slices.SortedFunc(maps.Keys(w.slices), func(a, b model.EndpointSliceName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// tables is what the kernel should hold, built from nothing.
func (w *world) tables() nft.Tables {
	events := []sync.Event{sync.SetNode{Node: w.node}, sync.SetServiceCIDRs{CIDRs: w.cidrs}}
	for _, s := range w.services {
		events = append(events, sync.SetService{Service: s})
	}
	for _, s := range w.slices {
		events = append(events, sync.SetSlice{Slice: s})
	}
	rules, _ := sync.Build(config, events)
	return rules.Tables()
}
