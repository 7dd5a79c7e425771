package lab

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"kube-vmap/model"
)

// Node is a host that routes for pods.
type Node struct {
	*Host
	ranges  [2]netip.Prefix
	podName string // with %d for the number
	used    int
	bridge  *link // to the pods, or nil
}

// Gateway returns the node's address towards its pods: the source that they see of a
// connection that the node masquerades.
func (n *Node) Gateway(f model.Family) netip.Addr { return Nth(n.ranges[f], 1) }

// PodRange returns the range of the addresses of the node's pods.
func (n *Node) PodRange(f model.Family) netip.Prefix { return n.ranges[f] }

// AddPod creates a pod on the node, with the address after that of the latest one.
// [Pod.Close] removes it, or the end of the lab. AddPod must not be called
// concurrently.
func (n *Node) AddPod() (*Pod, error) {
	if n.used == maxPods {
		return nil, fmt.Errorf("add pod to %s: no address left", n.Name)
	}
	n.used++
	host, err := newHost(fmt.Sprintf(n.podName, n.used), [2]netip.Addr{Nth(n.ranges[0], n.used+1), Nth(n.ranges[1], n.used+1)})
	if err != nil {
		return nil, fmt.Errorf("add pod to %s: %w", n.Name, err)
	}
	pod := &Pod{Host: host, node: n, Link: fmt.Sprintf("veth%d", n.used)}
	if pod.close, err = n.cleanup.add(host.close); err != nil {
		return nil, fmt.Errorf("add pod to %s: %w", n.Name, err)
	}
	if err := pod.attach(); err != nil {
		return nil, errors.Join(fmt.Errorf("add pod to %s: %w", n.Name, err), pod.Close())
	}
	return pod, nil
}

func (n *Node) addPods(count int) ([]*Pod, error) {
	pods := make([]*Pod, 0, count)
	for range count {
		pod, err := n.AddPod()
		if err != nil {
			return pods, err
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

// The address plan. Each pair is the IPv4 and the IPv6 range, in the order of
// Families of package model; index it with a Family.
var (
	// ServiceRanges are the ranges of ClusterIPs. No host of the lab has such an
	// address: pods and the host outside send such packets to node-1.
	ServiceRanges = pair("10.96.0.0/16", "fd00:10:96::/112")
	// PodRanges are the ranges of the pods of node-1. The first address is the node's.
	PodRanges = pair("10.244.1.0/24", "fd00:10:244:1::/64")
	// RemotePodRanges are the ranges of the pods of node-2.
	RemotePodRanges = pair("10.244.2.0/24", "fd00:10:244:2::/64")
	// ThirdPodRanges are the ranges of the pods of node-3.
	ThirdPodRanges = pair("10.244.3.0/24", "fd00:10:244:3::/64")
	// OutsideRanges are the ranges of the link between the nodes and the host outside.
	OutsideRanges = pair("192.0.2.0/24", "2001:db8:2::/64")
)

var (
	nodeAddrs    = [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:2::1")}
	remoteAddrs  = [2]netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8:2::2")}
	thirdAddrs   = [2]netip.Addr{netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("2001:db8:2::3")}
	outsideAddrs = [2]netip.Addr{netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("2001:db8:2::100")}
)

// maxPods is the most pods of a node: the IPv4 range without the node's own address.
const maxPods = 253

func pair(ip4, ip6 string) [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix(ip4), netip.MustParsePrefix(ip6)}
}

// Nth returns the n-th address after the base of a range.
func Nth(p netip.Prefix, n int) netip.Addr { return After(p.Addr(), n) }

// After returns the n-th address after one.
func After(base netip.Addr, n int) netip.Addr {
	b := base.AsSlice()
	for i := len(b) - 1; n > 0; i-- {
		n += int(b[i])
		b[i] = byte(n)
		n >>= 8
	}
	a, _ := netip.AddrFromSlice(b) // of the same length
	return a
}

// hostPrefix returns the prefix that holds only this address.
func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// defaultRoute returns the prefix of all addresses of a family.
func defaultRoute(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// Pod is a host behind a node.
type Pod struct {
	*Host
	// Link is the name of the node's interface to the pod, such as "veth1". With
	// [Options.Bridge] it is a port of the bridge.
	Link string

	node  *Node
	close func() error // the host, once
}

// Node returns the pod's node.
func (p *Pod) Node() *Node { return p.node }

func (p *Pod) attach() error {
	if p.node.bridge != nil {
		return p.attachTo(*p.node.bridge)
	}
	return p.attachAlone()
}

// attachAlone connects a pod so that all its packets are routed by the node: both
// ends have only single addresses, and routes to each other.
func (p *Pod) attachAlone() error {
	here, there, err := connect(p.node.Host, p.Link, p.Host, "eth0")
	if err != nil {
		return err
	}
	gateway := []netip.Prefix{hostPrefix(p.node.Gateway(model.IPv4)), hostPrefix(p.node.Gateway(model.IPv6))}
	own := []netip.Prefix{hostPrefix(p.Addr(model.IPv4)), hostPrefix(p.Addr(model.IPv6))}
	if err := errors.Join(here.up(gateway...), there.up(own...)); err != nil {
		return err
	}
	for _, f := range model.Families {
		err := errors.Join(
			here.route(hostPrefix(p.Addr(f)), netip.Addr{}),
			there.route(defaultRoute(p.Addr(f)), p.node.Gateway(f)),
		)
		if err != nil {
			return err
		}
	}
	return errors.Join(here.await(gateway...), there.await(own...), here.know(there, p.addrs))
}

// Close removes the pod, with its servers, link and routes. A second call does
// nothing.
func (p *Pod) Close() error {
	// The kernel would remove the link with the namespace, but later. Closing the
	// whole lab does not wait for that: it takes 30 ms for each link.
	return errors.Join(p.unlink(), p.close())
}

func (p *Pod) unlink() error {
	l, err := p.node.nl.LinkByName(p.Link)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil // AddPod failed before, or the pod is closed
	}
	if err == nil {
		err = p.node.nl.LinkDel(l)
	}
	if err != nil {
		return fmt.Errorf("remove link %s of %s: %w", p.Link, p.node.Name, err)
	}
	return nil
}
