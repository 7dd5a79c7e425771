package main

import (
	"kube-vmap/model"
	"kube-vmap/sync"
)

// changeKind is a kind of change to the cluster, with its opposite.
type changeKind struct {
	name, opposite string
	// prepare returns the events of a change to one Service, another one for each turn,
	// so that their construction is not measured.
	prepare func(c *cluster, turn int) (do, undo []sync.Event)
}

var changeKinds = []changeKind{
	{endpointReplaced, endpointReplaced, replaceEndpoint},
	endpointAdded,
	{"first of its count", "last of its count", addEndpoints},
	serviceAdded,
}

var (
	endpointAdded = changeKind{"endpoint more", "endpoint less", addEndpoint}
	serviceAdded  = changeKind{"Service more", "Service less", newService}
)

const endpointReplaced = "endpoint replaced"

func replaceEndpoint(c *cluster, turn int) (do, undo []sync.Event) {
	i, j := c.pickPod(turn)
	part, from := j/perSlice, j-j%perSlice
	to := min(from+perSlice, c.endpoints)
	before, pods := c.podRange(i, from, to), c.podRange(i, from, to)
	pods[j-from] = c.pod(i, c.endpoints)
	return single(sync.SetSlice{Slice: c.slice(i, part, pods)}), single(sync.SetSlice{Slice: c.slice(i, part, before)})
}

func addEndpoint(c *cluster, turn int) (do, undo []sync.Event) {
	i, _ := c.pickPod(turn)
	return c.setPods(i, c.pods(i, c.endpoints+1)), c.setPods(i, c.pods(i, c.endpoints))
}

// addEndpoints gives a Service more endpoints than any other has, so that new chains and
// a new map are needed.
func addEndpoints(c *cluster, turn int) (do, undo []sync.Event) {
	i, _ := c.pickPod(turn)
	return c.setPods(i, c.pods(i, c.endpoints+spares)), c.setPods(i, c.pods(i, c.endpoints))
}

func single(e sync.Event) []sync.Event { return []sync.Event{e} }

func newService(c *cluster, turn int) (do, undo []sync.Event) {
	return c.addAndRemove(c.size.services + 1 + turn*manyRangesEvery)
}

// newRangedService adds one of the Services with many source ranges.
func newRangedService(c *cluster, turn int) (do, undo []sync.Event) {
	return c.addAndRemove(c.size.services + (1+turn)*manyRangesEvery)
}

// addAndRemove adds and removes Service number i.
func (c *cluster) addAndRemove(i int) (do, undo []sync.Event) {
	do = c.setService(i, c.pods(i, c.endpoints))
	for _, e := range do {
		switch e := e.(type) {
		case sync.SetService:
			undo = append(undo, sync.DeleteService{Name: e.Service.Name})
		case sync.SetSlice:
			undo = append(undo, sync.DeleteSlice{Name: e.Slice.Name})
		}
	}
	return do, undo
}

// replaceLocal replaces an endpoint of this node by another one here.
func replaceLocal(c *cluster, turn int) (do, undo []sync.Event) {
	i, _ := c.pickPod(turn)
	before, pods := c.pods(i, c.endpoints), c.pods(i, c.endpoints)
	for j := range pods {
		if c.local(i, j) {
			pods[j] = c.pod(i, c.endpoints)
			pods[j].Node = thisNode
		}
	}
	return c.setPods(i, pods), c.setPods(i, before)
}

// changePolicy changes a Service's policy for traffic from outside.
func changePolicy(c *cluster, turn int) (do, undo []sync.Event) {
	i, _ := c.pickPod(turn)
	before, after := c.service(i), c.service(i)
	after.ExternalPolicy = other(c.policy)
	return c.updateService(after), c.updateService(before)
}

// addRange gives one more source range to a Service that has many.
func addRange(c *cluster, turn int) (do, undo []sync.Event) {
	i, _ := c.pickPod(turn)
	i -= i % manyRangesEvery
	before, after := c.service(i), c.service(i)
	after.SourceRanges = sourceRanges(c.family, i, manyRanges+1)
	return c.updateService(after), c.updateService(before)
}

// updateService returns the event of a changed Service.
func (c *cluster) updateService(s model.Service) []sync.Event {
	return single(sync.SetService{Service: s})
}
