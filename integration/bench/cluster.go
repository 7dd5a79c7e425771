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

// cluster is a synthetic cluster as a node sees it: Services of one family with one TCP
// port, and an EndpointSlice for each hundred endpoints.
//
// In addition to its size there is one Service with an endpoint more than the others, so
// that the chains for that many endpoints exist when a Service gains one, as they nearly
// always do in a large cluster. A cluster of one Service has no other.
type cluster struct {
	size
	serviceKind
	family   model.Family
	services *model.ServiceMap
}

const (
	thisNode    = "node-0"
	servicePort = 80
	podPort     = 8080
)

var (
	// podBase are the addresses before that of the first pod.
	podBase = [2]netip.Addr{netip.MustParseAddr("10.128.0.0"), netip.MustParseAddr("fd00:10:128::")}
	// podRanges hold the pods, and those of the lab.
	podRanges = [2]netip.Prefix{netip.MustParsePrefix("10.128.0.0/9"), netip.MustParsePrefix("fd00:10::/32")}
)

// nodeAddrs are the addresses that serve node ports: none, as their number is not what costs.
var nodeAddrs []netip.Addr

// serviceCIDRs are the ranges that ClusterIPs come from.
var serviceCIDRs = lab.ServiceRanges[:]

// config is the configuration of every rule set, as in a typical cluster.
var config = nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Pods: podRanges}

// newCluster returns a cluster of Services that only have a ClusterIP, with one pod of a
// hundred on this node. All its Services are pending changes.
func newCluster(s size, f model.Family) *cluster { return newClusterOf(clusterIPKind, s, f) }

func newClusterOf(k serviceKind, s size, f model.Family) *cluster {
	c := &cluster{size: s, serviceKind: k, family: f, services: model.NewServiceMap(
		model.Options{DetectsPods: [2]bool{true, true}},
		model.Node{Name: thisNode},
	)}
	for each := range c.objects() {
		c.apply(each)
	}
	return c
}

// objects yields the events for each Service of the cluster.
func (c *cluster) objects() iter.Seq[[]sync.Event] {
	return func(yield func([]sync.Event) bool) {
		for i := range c.size.services {
			if !yield(c.setService(i, c.pods(i, c.endpoints))) {
				return
			}
		}
		if c.size.services > 1 {
			yield(c.setService(c.size.services, c.pods(c.size.services, c.endpoints+1)))
		}
	}
}

// apply applies changes to the cluster.
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

// changes returns everything that changed since the last call, for the rule set.
func (c *cluster) changes() nft.Change {
	changed := c.services.Changes()
	return nft.Change{Set: changed.Set, Gone: changed.Gone}
}

// all returns the whole cluster, for a new rule set. It must be the first call.
func (c *cluster) all() nft.Change {
	change := c.changes()
	change.ServiceCIDRs = &serviceCIDRs
	change.NodeAddrs = &nodeAddrs
	return change
}

// setService adds Service number i.
func (c *cluster) setService(i int, pods []model.Endpoint) []sync.Event {
	return append([]sync.Event{sync.SetService{Service: c.service(i)}}, c.setPods(i, pods)...)
}

// setPods gives Service number i other pods.
func (c *cluster) setPods(i int, pods []model.Endpoint) []sync.Event {
	var all []sync.Event
	for some := range slices.Chunk(pods, perSlice) {
		all = append(all, sync.SetSlice{Slice: c.slice(i, len(all), some)})
	}
	return all
}

func serviceName(i int) model.ServiceName {
	return model.ServiceName{Namespace: "team-" + strconv.Itoa(i%50), Name: fmt.Sprintf("service-%05d", i)}
}

// service returns Service number i.
func (c *cluster) service(i int) model.Service {
	s := model.Service{
		Name:       serviceName(i),
		ClusterIPs: []netip.Addr{nth(lab.ServiceRanges[c.family].Addr(), i+1)},
		Ports:      []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: servicePort}},
	}
	c.serviceKind.shape(&s, c.family, i)
	return s
}

// perSlice is how many endpoints Kubernetes puts into one EndpointSlice by default
// (kube-controller-manager, --max-endpoints-per-slice).
const perSlice = 100

// slice returns an EndpointSlice of Service number i.
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

// spares is how many pods more a Service may have, for changes.
const spares = 1

// pods returns the first n pods of Service number i. Those beyond the cluster's size are
// on other nodes.
func (c *cluster) pods(i, n int) []model.Endpoint {
	return c.podRange(i, 0, n)
}

// podRange returns pods of Service number i, of from to below to.
func (c *cluster) podRange(i, from, to int) []model.Endpoint {
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

// local reports whether pod number j of Service number i runs on this node.
func (c *cluster) local(i, j int) bool {
	return j < c.endpoints && (i*c.endpoints+j)%c.onNode == 0
}

// pickPod returns a pod for a change, another one each time and none of this node.
func (c *cluster) pickPod(turn int) (service, pod int) {
	const stride = 7919 // a prime, so that consecutive changes are far apart in every map
	service, pod = turn*stride%c.size.services, turn*stride%c.endpoints
	if c.local(service, pod) {
		service, pod = (service+1)%c.size.services, (pod+1)%c.endpoints
	}
	return service, pod
}

// nth returns the n-th address after base.
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
