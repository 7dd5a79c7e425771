package looptest

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// config is the configuration of a loop, unless a history draws another.
var config = sync.Config{
	NodeName:  "node-1",
	Addresses: interfaces,
	Rules: nft.Config{
		MasqueradeMark: nft.DefaultMasqueradeMark, CountConnections: true,
		Pods: [...]netip.Prefix{
			model.IPv4: netip.MustParsePrefix("10.244.0.0/16"),
			model.IPv6: netip.MustParsePrefix("fd00:10:244::/56"),
		},
	},
}

// addresses is an address source that never changes.
type addresses []netip.Prefix

// Run sends the addresses.
func (a addresses) Run(ctx context.Context, out chan<- []netip.Prefix) error {
	sync.Send(ctx, out, []netip.Prefix(a))
	<-ctx.Done()
	return nil
}

var interfaces = addresses{
	netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("192.0.2.2/24"),
	netip.MustParsePrefix("2001:db8:9::1/64"), netip.MustParsePrefix("fe80::1/64"),
}

// objects are the current objects, and the changes that were not sent yet.
type objects struct {
	current map[string]sync.Event // by sortable key
	unsent  []sync.Event
}

func newObjects() *objects {
	return &objects{current: map[string]sync.Event{
		"0": sync.SetNode{Node: model.Node{Name: config.NodeName}}, "1": sync.SetServiceCIDRs{},
	}}
}

// set changes an object.
func (o *objects) set(e sync.Event) {
	o.unsent = append(o.unsent, e)
	switch e := e.(type) {
	case sync.SetNode:
		if before, known := o.current["0"].(sync.SetNode); known && e.Node.PodCIDRs == (model.Node{}).PodCIDRs {
			e.Node.PodCIDRs = before.Node.PodCIDRs // a node that lost them still has pods
		}
		o.current["0"] = e
	case sync.SetServiceCIDRs:
		o.current["1"] = e
	case sync.SetService:
		o.current["2 "+e.Service.Name.String()] = e
	case sync.DeleteService:
		delete(o.current, "2 "+e.Name.String())
	case sync.SetSlice:
		o.current["3 "+e.Slice.Name.String()] = e
	case sync.DeleteSlice:
		delete(o.current, "3 "+e.Name.String())
	}
}

// burst returns the unsent changes, or all objects if a source sends its first burst.
func (o *objects) burst(first bool) []sync.Event {
	events := o.unsent
	if first {
		events = o.all()
	}
	o.unsent = nil
	return events
}

// all returns all objects, always in the same order.
func (o *objects) all() []sync.Event {
	var events []sync.Event
	for _, key := range slices.Sorted(maps.Keys(o.current)) {
		events = append(events, o.current[key])
	}
	return events
}
