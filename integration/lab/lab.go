package lab

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// Options describe a lab.
type Options struct {
	// Pods is the number of pods on node-1, at most 253.
	Pods int
	// RemotePods is the number of pods on node-2, at most 253. There is a node-2
	// if it is not 0.
	RemotePods int
	// ThirdPods is the same for node-3.
	ThirdPods int
	// Bridge attaches the pods of each node to a Linux bridge of it, [BridgeName],
	// whose packets pass the hooks of IP (net.bridge.bridge-nf-call-iptables and
	// -ip6tables), as nodes of kubeadm do. Pods of a node then reach each other
	// without its routing. See [MissingBridge].
	Bridge bool
}

// Lab is a set of connected hosts; see the picture in the package documentation.
type Lab struct {
	// Node is node-1, where the proxy under test belongs.
	Node *Node
	// Pods are the pods of node-1 that [New] created.
	Pods []*Pod
	// Remote is node-2, or nil.
	Remote *Node
	// RemotePods are the pods of node-2.
	RemotePods []*Pod
	// Third is node-3, or nil.
	Third *Node
	// ThirdPods are the pods of node-3.
	ThirdPods []*Pod
	// Outside is the host outside.
	Outside *Host

	options Options
	cleanup cleanup
}

// New builds a lab. The caller must close it. After an error nothing is left behind.
func New(o Options) (*Lab, error) {
	l := &Lab{options: o}
	if err := l.build(); err != nil {
		return nil, errors.Join(fmt.Errorf("build lab: %w", err), l.Close())
	}
	return l, nil
}

// Close ends all servers and commands and removes everything. The kernel removes the
// namespaces in the background. A second call does nothing.
func (l *Lab) Close() error {
	if err := l.cleanup.close(); err != nil {
		return fmt.Errorf("close lab: %w", err)
	}
	return nil
}

// Nodes returns the nodes, node-1 first.
func (l *Lab) Nodes() []*Node {
	nodes := []*Node{l.Node, l.Remote, l.Third}
	return slices.DeleteFunc(nodes, func(n *Node) bool { return n == nil })
}

// Hosts returns all hosts that [New] created: the nodes, the host outside, and the
// pods.
func (l *Lab) Hosts() []*Host {
	var hosts []*Host
	for _, n := range l.Nodes() {
		hosts = append(hosts, n.Host)
	}
	hosts = append(hosts, l.Outside)
	for _, p := range slices.Concat(l.Pods, l.RemotePods, l.ThirdPods) {
		hosts = append(hosts, p.Host)
	}
	return hosts
}

// Missing returns an error if this machine cannot have a lab, with the reason.
func Missing() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab needs root to create network namespaces")
	}
	h, err := newHost("probe", [2]netip.Addr{})
	if err != nil {
		return fmt.Errorf("the lab cannot create network namespaces here: %w", err)
	}
	return h.close()
}

func (l *Lab) build() (err error) {
	if err := l.addOutside(); err != nil {
		return err
	}
	if l.Node, l.Pods, err = l.addNode("node-1", nodeAddrs, PodRanges, "pod-%d", l.options.Pods); err != nil {
		return err
	}
	for _, f := range model.Families {
		if err := l.Outside.AddRoute(ServiceRanges[f], l.Node.Addr(f)); err != nil {
			return err
		}
	}
	if l.options.RemotePods > 0 {
		l.Remote, l.RemotePods, err = l.addNode("node-2", remoteAddrs, RemotePodRanges, "remote-%d", l.options.RemotePods)
		if err != nil {
			return err
		}
	}
	if l.options.ThirdPods > 0 {
		l.Third, l.ThirdPods, err = l.addNode("node-3", thirdAddrs, ThirdPodRanges, "third-%d", l.options.ThirdPods)
	}
	return err
}

// addOutside creates the host outside. Its interface is a bridge, the link between it
// and the nodes.
func (l *Lab) addOutside() (err error) {
	if l.Outside, err = newHost("outside", outsideAddrs); err != nil {
		return err
	}
	if _, err := l.cleanup.add(l.Outside.close); err != nil {
		return err
	}
	bridge, err := l.Outside.newBridge("eth0")
	if err != nil {
		return err
	}
	return bridge.up(outsidePrefixes(outsideAddrs)...)
}

// addNode creates a node with its pods, its link to the outside, and the routes between it, the
// outside and the nodes before.
func (l *Lab) addNode(name string, addrs [2]netip.Addr, ranges [2]netip.Prefix, podName string, pods int) (*Node, []*Pod, error) {
	before := l.Nodes()
	host, err := newHost(name, addrs)
	if err != nil {
		return nil, nil, err
	}
	n := &Node{Host: host, ranges: ranges, podName: podName}
	if _, err := l.cleanup.add(n.close); err != nil {
		return nil, nil, err
	}
	if err := n.set(nodeSysctls); err != nil {
		return nil, nil, err
	}
	if l.options.Bridge {
		if err := n.addBridge(); err != nil {
			return nil, nil, err
		}
	}
	if err := l.plug(n); err != nil {
		return nil, nil, err
	}
	for _, other := range before {
		here, err := n.link("eth0")
		if err != nil {
			return nil, nil, err
		}
		there, err := other.link("eth0")
		if err != nil {
			return nil, nil, err
		}
		if err := errors.Join(here.know(there, other.addrs), there.know(here, addrs)); err != nil {
			return nil, nil, err
		}
		for _, f := range model.Families {
			err := errors.Join(other.AddRoute(ranges[f], addrs[f]), n.AddRoute(other.ranges[f], other.addrs[f]))
			if err != nil {
				return nil, nil, err
			}
		}
	}
	all, err := n.addPods(pods)
	return n, all, err
}

func (l *Lab) plug(n *Node) error {
	eth0, port, err := connect(n.Host, "eth0", l.Outside, n.Name)
	if err != nil {
		return err
	}
	bridge, err := l.Outside.link("eth0")
	if err != nil {
		return err
	}
	if err := l.Outside.nl.LinkSetMaster(port, bridge); err != nil {
		return fmt.Errorf("attach %s to the bridge outside: %w", n.Name, err)
	}
	if err := errors.Join(port.up(), eth0.up(outsidePrefixes(n.addrs)...)); err != nil {
		return err
	}
	for _, f := range model.Families {
		err := errors.Join(
			eth0.route(defaultRoute(n.addrs[f]), outsideAddrs[f]),
			bridge.route(n.ranges[f], n.addrs[f]),
		)
		if err != nil {
			return err
		}
	}
	return errors.Join(
		eth0.await(outsidePrefixes(n.addrs)...), port.await(), bridge.await(outsidePrefixes(outsideAddrs)...),
		eth0.know(bridge, outsideAddrs),
	)
}

// outsidePrefixes returns addresses with the prefix length of the link outside.
func outsidePrefixes(addrs [2]netip.Addr) []netip.Prefix {
	prefixes := make([]netip.Prefix, len(addrs))
	for i, a := range addrs {
		prefixes[i] = netip.PrefixFrom(a, OutsideRanges[i].Bits())
	}
	return prefixes
}

// linkTimeout is far more than links need to become ready.
const linkTimeout = time.Minute

var errNotReady = errors.New("not ready in time")

// await waits until the link carries packets and its IPv6 addresses work; prefixes are
// those given to [link.up]. Earlier packets would be lost, and a lost neighbour
// solicitation costs a second.
func (l link) await(prefixes ...netip.Prefix) error {
	deadline := time.Now().Add(linkTimeout)
	for {
		ready, err := l.ready(prefixes)
		if err == nil && !ready && time.Now().After(deadline) {
			err = errNotReady
		}
		if err != nil {
			return fmt.Errorf("wait for %s of %s: %w", l.Attrs().Name, l.host.Name, err)
		}
		if ready {
			return nil
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// ready reports whether the kernel has finished its background work after the link
// was set up. Since 6.9 (facd15dfd691), reading the state makes it enable
// transmission immediately.
func (l link) ready(prefixes []netip.Prefix) (bool, error) {
	now, err := l.host.nl.LinkByIndex(l.Attrs().Index)
	if err != nil || now.Attrs().OperState != netlink.OperUp {
		return false, err
	}
	return l.addressed(prefixes)
}

// addressed reports whether the link's IPv6 addresses, including the link-local one,
// have passed duplicate address detection. Even if it is disabled, it runs in the
// background, and only after it do the local route and the multicast group exist by
// which neighbours find the address.
func (l link) addressed(prefixes []netip.Prefix) (bool, error) {
	if len(prefixes) == 0 {
		return true, nil
	}
	filter := &netlink.Route{LinkIndex: l.Attrs().Index, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}
	mask := netlink.RT_FILTER_OIF | netlink.RT_FILTER_TABLE | netlink.RT_FILTER_TYPE
	routes, err := l.host.nl.RouteListFiltered(netlink.FAMILY_V6, filter, mask)
	if err != nil {
		return false, err
	}
	found := make(map[netip.Addr]bool)
	for _, r := range routes {
		a, _ := netip.AddrFromSlice(r.Dst.IP)
		found[a] = true
	}
	for _, p := range prefixes {
		if p.Addr().Is6() && !found[p.Addr()] {
			return false, nil
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(found)), netip.Addr.IsLinkLocalUnicast), nil
}
