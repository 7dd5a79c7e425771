package main

import "kube-vmap/sync"

// changeKind is a kind of change to the cluster, with its opposite.
type changeKind struct {
	name, opposite string
	// prepare returns the events of a change to one Service, another one for each turn,
	// so that their construction is not measured.
	prepare func(c *cluster, turn int) (do, undo []sync.Event)
}

var (
	// replaceColdAndWarm separates the first change of a Service, whose data is in no cache
	// of the processor, from a second one immediately after it.
	replaceColdAndWarm = changeKind{endpointReplaced, "the same Service again", replaceEndpoint}
	endpointAdded      = changeKind{"endpoint more", "endpoint less", addEndpoint}
	serviceAdded       = changeKind{"Service more", "Service less", newService}
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

func single(e sync.Event) []sync.Event { return []sync.Event{e} }

func newService(c *cluster, turn int) (do, undo []sync.Event) {
	i := c.size.services + 1 + turn
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

// replaceLocal replaces an endpoint of this node, which has more elements, by another one here.
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
