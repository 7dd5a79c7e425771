package main

import (
	"kube-vmap/model"
	"kube-vmap/sync"
)

// edit is a kind of change to the cluster and its opposite.
type edit struct {
	does, undoes string
	// prepare makes change number turn, so that what is timed begins when the
	// objects are at hand. All of it is about one Service.
	prepare func(c *cluster, turn int) (do, undo []sync.Event)
}

var edits = []edit{
	{replaces, replaces, replaceEndpoint},
	moreEndpoints,
	{"first of its count", "last of its count", addEndpoints},
	moreServices,
}

var (
	moreEndpoints = edit{"endpoint more", "endpoint less", addEndpoint}
	moreServices  = edit{"Service more", "Service less", newService}
)

const replaces = "endpoint replaced"

func replaceEndpoint(c *cluster, turn int) (do, undo []sync.Event) {
	i, j := c.victim(turn)
	part, from := j/perSlice, j-j%perSlice
	to := min(from+perSlice, c.endpoints)
	before, pods := c.someOf(i, from, to), c.someOf(i, from, to)
	pods[j-from] = c.pod(i, c.endpoints)
	return one(sync.SetSlice{Slice: c.slice(i, part, pods)}), one(sync.SetSlice{Slice: c.slice(i, part, before)})
}

func addEndpoint(c *cluster, turn int) (do, undo []sync.Event) {
	i, _ := c.victim(turn)
	return c.exchange(i, c.pods(i, c.endpoints+1)), c.exchange(i, c.pods(i, c.endpoints))
}

// addEndpoints gives a Service more endpoints than any other has, so that chains
// and a map come with it.
func addEndpoints(c *cluster, turn int) (do, undo []sync.Event) {
	i, _ := c.victim(turn)
	return c.exchange(i, c.pods(i, c.endpoints+spares)), c.exchange(i, c.pods(i, c.endpoints))
}

func one(e sync.Event) []sync.Event { return []sync.Event{e} }

func newService(c *cluster, turn int) (do, undo []sync.Event) {
	return c.comesAndGoes(c.size.services + 1 + turn*manyRangesEvery)
}

// newRangedService adds one of those that have many source ranges, if any have.
func newRangedService(c *cluster, turn int) (do, undo []sync.Event) {
	return c.comesAndGoes(c.size.services + (1+turn)*manyRangesEvery)
}

// comesAndGoes adds and removes Service number i.
func (c *cluster) comesAndGoes(i int) (do, undo []sync.Event) {
	do = c.set(i, c.pods(i, c.endpoints))
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
	i, _ := c.victim(turn)
	before, pods := c.pods(i, c.endpoints), c.pods(i, c.endpoints)
	for j := range pods {
		if c.local(i, j) {
			pods[j] = c.pod(i, c.endpoints)
			pods[j].Node = thisNode
		}
	}
	return c.exchange(i, pods), c.exchange(i, before)
}

// changePolicy changes a Service's policy for traffic from outside.
func changePolicy(c *cluster, turn int) (do, undo []sync.Event) {
	i, _ := c.victim(turn)
	before, after := c.service(i), c.service(i)
	after.ExternalPolicy = other(c.policy)
	return c.rewrite(after), c.rewrite(before)
}

// addRange gives one more source range to a Service that has many.
func addRange(c *cluster, turn int) (do, undo []sync.Event) {
	i, _ := c.victim(turn)
	i -= i % manyRangesEvery
	before, after := c.service(i), c.service(i)
	after.SourceRanges = sourceRanges(c.family, i, manyRanges+1)
	return c.rewrite(after), c.rewrite(before)
}

// rewrite gives a Service another form.
func (c *cluster) rewrite(s model.Service) []sync.Event { return one(sync.SetService{Service: s}) }
