package main

import (
	"kube-vmap/model"
)

// edit is a kind of change to the cluster and its opposite.
type edit struct {
	does, undoes string
	// prepare makes change number turn, so that what is timed begins when the
	// objects are at hand.
	prepare func(c *cluster, turn int) (do, undo func())
}

var edits = []edit{
	{replaces, replaces, replaceEndpoint},
	{"endpoint more", "endpoint less", addEndpoint},
	{"first of its count", "last of its count", addEndpoints},
	{"Service more", "Service less", newService},
}

const replaces = "endpoint replaced"

func replaceEndpoint(c *cluster, turn int) (do, undo func()) {
	i, j := c.victim(turn)
	before, pods := c.pods(i, c.endpoints), c.pods(i, c.endpoints)
	pods[j] = c.pod(i, c.endpoints)
	return c.exchange(i, pods), c.exchange(i, before)
}

func addEndpoint(c *cluster, turn int) (do, undo func()) {
	i, _ := c.victim(turn)
	return c.exchange(i, c.pods(i, c.endpoints+1)), c.exchange(i, c.pods(i, c.endpoints))
}

// addEndpoints gives a Service more endpoints than any other has, so that chains
// and a map come with it.
func addEndpoints(c *cluster, turn int) (do, undo func()) {
	i, _ := c.victim(turn)
	return c.exchange(i, c.pods(i, c.endpoints+spares)), c.exchange(i, c.pods(i, c.endpoints))
}

// exchange gives Service number i other pods.
func (c *cluster) exchange(i int, pods []model.Endpoint) func() {
	slice := c.slice(i, pods)
	return func() { c.services.SetSlice(slice) }
}

func newService(c *cluster, turn int) (do, undo func()) {
	i := c.size.services + 1 + turn
	service, slice := c.service(i), c.slice(i, c.pods(i, c.endpoints))
	do = func() {
		c.services.SetService(service)
		c.services.SetSlice(slice)
	}
	undo = func() {
		c.services.DeleteService(service.Name)
		c.services.DeleteSlice(slice.Name)
	}
	return do, undo
}
