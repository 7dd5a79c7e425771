package lab

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"kube-vmap/model"
)

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
