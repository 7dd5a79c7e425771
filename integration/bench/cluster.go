package main

import (
	"fmt"
	"net/netip"
	"strconv"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// size is how many Services there are and how many endpoints each has.
type size struct{ services, endpoints int }

func (s size) String() string { return thousands(s.services) + " x " + strconv.Itoa(s.endpoints) }

// cluster is a made-up cluster as the node knows it: Services of one family and
// one TCP port, each with one EndpointSlice.
//
// One Service more than its size says has one endpoint more than the others, so
// that a Service that gains an endpoint finds its chains there, as it nearly
// always does in a large cluster.
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

// config shapes every rule set here as a usual cluster has it.
var config = nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Pods: podRanges}

// newCluster makes a cluster of Services that have a ClusterIP and nothing else,
// with one pod of a hundred on this node; its Services are what is new in it.
func newCluster(s size, f model.Family) *cluster { return newClusterOf(kind{onNode: 100}, s, f) }

func newClusterOf(k kind, s size, f model.Family) *cluster {
	c := &cluster{size: s, kind: k, family: f, services: model.NewServiceMap(
		model.Options{DetectsPods: [2]bool{true, true}},
		model.Node{Name: thisNode},
	)}
	for i := range s.services {
		c.set(i, c.pods(i, s.endpoints))
	}
	c.set(s.services, c.pods(s.services, s.endpoints+1))
	return c
}

// changes is everything that changed in the cluster, for the rule set.
func (c *cluster) changes() nft.Change {
	changed := c.services.Changes()
	return nft.Change{Set: changed.Set, Gone: changed.Gone}
}

// all is everything there is in the cluster, for a rule set that is not there.
func (c *cluster) all() nft.Change {
	change := c.changes()
	change.ServiceCIDRs = &[]netip.Prefix{lab.ServiceRanges[model.IPv4], lab.ServiceRanges[model.IPv6]}
	change.NodeAddrs = &c.nodeAddrs
	return change
}

// set adds Service number i.
func (c *cluster) set(i int, pods []model.Endpoint) {
	c.services.SetService(c.service(i))
	c.services.SetSlice(c.slice(i, pods))
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

// slice is the EndpointSlice of Service number i.
func (c *cluster) slice(i int, pods []model.Endpoint) model.Slice {
	name := serviceName(i)
	return model.Slice{
		Name:      model.SliceName{Namespace: name.Namespace, Name: name.Name + "-abcde"},
		Service:   name,
		Family:    c.family,
		Ports:     []model.SlicePort{{Name: "http", Protocol: model.TCP, Port: podPort}},
		Endpoints: pods,
	}
}

// spares is how many pods of a Service are kept for changes.
const spares = 2

// pods are the first n pods of Service number i; those above the cluster's usual
// count are on other nodes.
func (c *cluster) pods(i, n int) []model.Endpoint {
	pods := make([]model.Endpoint, n)
	for j := range pods {
		pods[j] = c.pod(i, j)
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
	service, pod = turn*stride%c.size.services, turn%c.endpoints
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
