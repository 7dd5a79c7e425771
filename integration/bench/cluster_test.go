package bench

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// size is how many Services there are and how many endpoints each has.
type size struct{ services, endpoints int }

// standard is the size of which promises are made.
var standard = size{10_000, 10}

// kind is what all Services of a cluster have besides their ClusterIP.
type kind struct {
	name   string
	onNode int  // every pod with a number divisible by it runs on this node
	local  bool // a LoadBalancer with a node port and an external IP, under policy Local
	sticky bool // with session affinity
}

// clusterIP has one pod of a hundred on this node.
var clusterIP = kind{name: "ClusterIP", onNode: 100}

// clusters returns those with which loads and changes are measured. One with session affinity
// comes after the same without.
func clusters() []*cluster {
	z, local := standard, kind{name: "Local", onNode: 10, local: true}
	if testing.Short() {
		z.services = 3_000
	}
	sticky, localSticky := clusterIP, local
	sticky.name, sticky.sticky = "sticky", true
	localSticky.name, localSticky.sticky = "Local-sticky", true
	all := []*cluster{newCluster(clusterIP, size{100, 10}), newCluster(clusterIP, size{1_000, 10})}
	if !testing.Short() {
		all = append(all, newCluster(clusterIP, size{45_000, 1}))
	}
	for _, k := range []kind{clusterIP, sticky, local, localSticky} {
		all = append(all, newCluster(k, z))
	}
	return all
}

// cluster is a synthetic cluster as a node sees it: Services with one TCP port over IPv4, and an
// EndpointSlice for each.
//
// In addition to its size there is one Service with an endpoint more than the others, so
// that the chains for that many endpoints exist when a Service gains one, as they nearly
// always do in a large cluster.
type cluster struct {
	kind
	size
	services *model.ServiceMap
}

const (
	thisNode    = "node-0"
	servicePort = 80
	podPort     = 8080
	nodePorts   = 20_000 // the first one
)

var (
	// The addresses before the first of each kind, from ranges for pods and for benchmarks
	// (RFC 2544).
	podBase      = netip.MustParseAddr("10.128.0.0")
	balancerBase = netip.MustParseAddr("198.18.0.0")
	externalBase = netip.MustParseAddr("198.19.0.0")

	// config is the configuration of every rule set, as in a typical cluster. The ranges hold
	// the pods, and those of the lab.
	config = nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Pods: [2]netip.Prefix{
		netip.MustParsePrefix("10.128.0.0/9"), netip.MustParsePrefix("fd00:10::/32"),
	}}
	// options are those of the model, for each cluster.
	options = model.Options{DetectsPods: [2]bool{true, true}}
)

// newCluster returns a cluster. All its Services are pending changes.
func newCluster(k kind, s size) *cluster {
	c := &cluster{kind: k, size: s, services: model.NewServiceMap(options, model.Node{Name: thisNode})}
	for i := range s.services {
		c.set(c.service(i), c.slice(i, s.endpoints))
	}
	c.set(c.service(s.services), c.slice(s.services, s.endpoints+1))
	return c
}

// String returns the name of its line in a report.
func (c *cluster) String() string {
	return fmt.Sprintf("%s-%dx%d", c.name, c.size.services, c.endpoints)
}

// large reports whether the marks for times are the cluster's.
func (c *cluster) large() bool { return c.kind == clusterIP && c.size.services >= standard.services }

func (c *cluster) set(s model.Service, e model.EndpointSlice) {
	c.services.SetService(s)
	c.services.SetSlice(e)
}

// changes returns everything that changed since the last call, for the rule set.
func (c *cluster) changes() nft.Change {
	changed := c.services.Changes()
	return nft.Change{Set: changed.Set, Removed: changed.Removed}
}

// all returns the whole cluster, for a new rule set. It must be the first call. There are no
// addresses that serve node ports, as their number is not what costs.
func (c *cluster) all() nft.Change {
	change, ranges := c.changes(), lab.ServiceRanges[:]
	change.ServiceCIDRs, change.NodeAddrs = &ranges, new([]netip.Addr)
	return change
}

func (c *cluster) service(i int) model.Service {
	namespace, name := "team-"+strconv.Itoa(i%50), fmt.Sprintf("service-%05d", i)
	s := model.Service{
		Name:       model.ServiceName{Namespace: namespace, Name: name},
		ClusterIPs: []netip.Addr{lab.After(lab.ServiceRanges[model.IPv4].Addr(), i+1)},
		Ports:      []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: servicePort}},
	}
	if c.sticky {
		s.Affinity = 3 * time.Hour
	}
	if c.local {
		s.LoadBalancerIPs = []netip.Addr{lab.After(balancerBase, i+1)}
		s.ExternalIPs = []netip.Addr{lab.After(externalBase, i+1)}
		s.ExternalPolicy = model.PolicyLocal
		s.Ports[0].NodePort = nodePorts + uint16(i)
	}
	return s
}

// slice returns the EndpointSlice of Service number i with its first n pods.
func (c *cluster) slice(i, n int) model.EndpointSlice {
	service := c.service(i).Name
	slice := model.EndpointSlice{
		Name: model.EndpointSliceName(service), Service: service,
		Ports: []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: podPort}},
	}
	for j := range n {
		slice.Endpoints = append(slice.Endpoints, c.pod(i, j))
	}
	return slice
}

// pod returns pod number j of Service number i. Those beyond the cluster's size are on other
// nodes.
func (c *cluster) pod(i, j int) model.Endpoint {
	number := i*(c.endpoints+1) + j // with one for changes
	node := "node-" + strconv.Itoa(1+number%99)
	if c.here(i, j) {
		node = thisNode
	}
	return model.Endpoint{Addr: lab.After(podBase, number+1), Ready: true, Serving: true, Node: node}
}

// here reports whether pod number j of Service number i runs on this node.
func (c *cluster) here(i, j int) bool {
	return j < c.endpoints && (i*c.endpoints+j)%c.onNode == 0
}
