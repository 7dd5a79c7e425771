package lab

import (
	"errors"
	"fmt"
	"net/netip"

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
