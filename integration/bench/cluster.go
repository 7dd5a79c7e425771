package main

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// size is how many Services there are and how many endpoints each has.
type size struct{ services, endpoints int }

func (s size) String() string { return report.Text(s.services) + " x " + report.Text(s.endpoints) }

// cluster is a made-up cluster as the node knows it: Services of one family and
// one TCP port, each with an EndpointSlice for a hundred endpoints.
//
// One Service more than its size says has one endpoint more than the others, so
// that a Service that gains an endpoint finds its chains there, as it nearly
// always does in a large cluster. A Service that is alone stays so.
type cluster struct {
	size
	kind
	family    model.Family
	nodeAddrs []netip.Addr // that serve node ports
	services  *model.ServiceMap
}

const (
	thisNode    = "node-0"
	servicePort = 80
	podPort     = 8080
)

var (
	// podBase are the addresses before the first pod's.
	podBase = [2]netip.Addr{netip.MustParseAddr("10.128.0.0"), netip.MustParseAddr("fd00:10:128::")}
	// podRanges hold the pods, and those of the lab.
	podRanges = [2]netip.Prefix{netip.MustParsePrefix("10.128.0.0/9"), netip.MustParsePrefix("fd00:10::/32")}
)

// serviceCIDRs are the ranges that ClusterIPs come from.
var serviceCIDRs = lab.ServiceRanges[:]

// config shapes every rule set here as a usual cluster has it.
var config = nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Pods: podRanges}

// newCluster makes a cluster of Services that have a ClusterIP and nothing else,
// with one pod of a hundred on this node; its Services are what is new in it.
func newCluster(s size, f model.Family) *cluster { return newClusterOf(usual, s, f) }

func newClusterOf(k kind, s size, f model.Family) *cluster {
	c := &cluster{size: s, kind: k, family: f, services: model.NewServiceMap(
		model.Options{DetectsPods: [2]bool{true, true}},
		model.Node{Name: thisNode},
	)}
	for each := range c.objects() {
		c.apply(each)
	}
	return c
}

// objects are all that there is in the cluster, one Service after the other.
func (c *cluster) objects() iter.Seq[[]sync.Event] {
	return func(yield func([]sync.Event) bool) {
		for i := range c.size.services {
			if !yield(c.set(i, c.pods(i, c.endpoints))) {
				return
			}
		}
		if c.size.services > 1 {
			yield(c.set(c.size.services, c.pods(c.size.services, c.endpoints+1)))
		}
	}
}

// apply makes changes.
func (c *cluster) apply(changes []sync.Event) {
	for _, e := range changes {
		switch e := e.(type) {
		case sync.SetService:
			c.services.SetService(e.Service)
		case sync.SetSlice:
			c.services.SetSlice(e.Slice)
		case sync.DeleteService:
			c.services.DeleteService(e.Name)
		case sync.DeleteSlice:
			c.services.DeleteSlice(e.Name)
		}
	}
}

// changes is everything that changed in the cluster, for the rule set.
func (c *cluster) changes() nft.Change {
	changed := c.services.Changes()
	return nft.Change{Set: changed.Set, Gone: changed.Gone}
}

// all is everything there is in the cluster, for a rule set that is not there.
func (c *cluster) all() nft.Change {
	change := c.changes()
	change.ServiceCIDRs = &serviceCIDRs
	change.NodeAddrs = &c.nodeAddrs
	return change
}

// set adds Service number i.
func (c *cluster) set(i int, pods []model.Endpoint) []sync.Event {
	return append([]sync.Event{sync.SetService{Service: c.service(i)}}, c.exchange(i, pods)...)
}

// exchange gives Service number i other pods.
func (c *cluster) exchange(i int, pods []model.Endpoint) []sync.Event {
	var all []sync.Event
	for some := range slices.Chunk(pods, perSlice) {
		all = append(all, sync.SetSlice{Slice: c.slice(i, len(all), some)})
	}
	return all
}

func serviceName(i int) model.ServiceName {
	return model.ServiceName{Namespace: "team-" + strconv.Itoa(i%50), Name: fmt.Sprintf("service-%05d", i)}
}

// service is Service number i.
func (c *cluster) service(i int) model.Service {
	s := model.Service{
		Name:       serviceName(i),
		ClusterIPs: []netip.Addr{nth(lab.ServiceRanges[c.family].Addr(), i+1)},
		Ports:      []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: servicePort}},
	}
	c.kind.shape(&s, c.family, i)
	return s
}

// perSlice is how many endpoints Kubernetes puts into one EndpointSlice, unless it
// is told otherwise (kube-controller-manager, --max-endpoints-per-slice).
const perSlice = 100

// slice is an EndpointSlice of Service number i.
func (c *cluster) slice(i, part int, pods []model.Endpoint) model.EndpointSlice {
	name := serviceName(i)
	return model.EndpointSlice{
		Name:      model.EndpointSliceName{Namespace: name.Namespace, Name: fmt.Sprintf("%s-%05d", name.Name, part)},
		Service:   name,
		Family:    c.family,
		Ports:     []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: podPort}},
		Endpoints: pods,
	}
}

// spares is how many pods of a Service are kept for changes.
const spares = 2

// pods are the first n pods of Service number i; those above the cluster's usual
// count are on other nodes.
func (c *cluster) pods(i, n int) []model.Endpoint {
	return c.someOf(i, 0, n)
}

// someOf are pods of Service number i, of from to below to.
func (c *cluster) someOf(i, from, to int) []model.Endpoint {
	pods := make([]model.Endpoint, 0, to-from)
	for j := from; j < to; j++ {
		pods = append(pods, c.pod(i, j))
	}
	return pods
}

func (c *cluster) pod(i, j int) model.Endpoint {
	number := i*(c.endpoints+spares) + j
	node := "node-" + strconv.Itoa(1+number%99)
	if c.local(i, j) {
		node = thisNode
	}
	return model.Endpoint{Addr: nth(podBase[c.family], number+1), Ready: true, Serving: true, Node: node}
}

// local tells whether pod number j of Service number i runs on this node.
func (c *cluster) local(i, j int) bool {
	return j < c.endpoints && (i*c.endpoints+j)%c.onNode == 0
}

// victim chooses a pod for a change, another one each time and none of this node.
func (c *cluster) victim(turn int) (service, pod int) {
	const stride = 7919 // a prime, so that neighbours in time are none in any map
	service, pod = turn*stride%c.size.services, turn*stride%c.endpoints
	if c.local(service, pod) {
		service, pod = (service+1)%c.size.services, (pod+1)%c.endpoints
	}
	return service, pod
}

// nth is the n-th address after base.
func nth(base netip.Addr, n int) netip.Addr {
	b := base.AsSlice()
	for i := len(b) - 1; n > 0; i-- {
		n += int(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	a, _ := netip.AddrFromSlice(b) // of the length it came from
	return a
}
