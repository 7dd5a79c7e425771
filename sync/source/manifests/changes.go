package manifests

import (
	"cmp"
	"net/netip"
	"slices"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// changes returns the events for objects that were read again or are no longer there, in a
// fixed order: the node, the ServiceCIDRs, then objects by kind and name. If before is
// nil, no events were sent yet, and the node is always among them.
func changes(before, now objects, node string) []sync.Event {
	var out []sync.Event
	if n := now.node(node); before == nil || n != before.node(node) {
		out = append(out, n)
	}
	if cidrs := now.serviceCIDRs(); !slices.Equal(cidrs, before.serviceCIDRs()) {
		out = append(out, sync.SetServiceCIDRs{CIDRs: cidrs})
	}
	for _, key := range changedKeys(before, now) {
		if event := eventFor(key, now[key].value); event != nil {
			out = append(out, event)
		}
	}
	return out
}

func changedKeys(before, now objects) []sync.Object {
	var keys []sync.Object
	for key, o := range now {
		// Objects of a file that was not read again are the same pointers.
		if before[key].value != o.value {
			keys = append(keys, key)
		}
	}
	for key, o := range before {
		if _, ok := now[key]; !ok && o.value != nil {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, compareObjects)
	return keys
}

func compareObjects(a, b sync.Object) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// eventFor returns the event for a Service or EndpointSlice that has this value now; nil
// means deleted. It returns nil for other kinds.
func eventFor(key sync.Object, value any) sync.Event {
	switch v := value.(type) {
	case *model.Service:
		return sync.SetService{Service: *v}
	case *model.EndpointSlice:
		return sync.SetSlice{Slice: *v}
	}
	switch key.Kind {
	case "Service":
		return sync.DeleteService{Name: model.ServiceName{Namespace: key.Namespace, Name: key.Name}}
	case "EndpointSlice":
		return sync.DeleteSlice{Name: model.EndpointSliceName{Namespace: key.Namespace, Name: key.Name}}
	}
	return nil
}

// node returns the proxy's node, which has only its name if the object is missing.
func (o objects) node(name string) sync.SetNode {
	if n, ok := o[sync.Object{Kind: "Node", Name: name}].value.(*sync.SetNode); ok {
		return *n
	}
	return sync.SetNode{Node: model.Node{Name: name}}
}

// serviceCIDRs returns the prefixes of all ServiceCIDRs, sorted, each once.
func (o objects) serviceCIDRs() []netip.Prefix {
	var out []netip.Prefix
	for _, object := range o {
		if c, ok := object.value.(*serviceCIDR); ok {
			out = append(out, c.ranges...)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}
