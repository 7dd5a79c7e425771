// Package toptest has documents of nodes and Services for tests of package top and of its plugin.
package toptest

import (
	"context"
	"net/netip"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

// Noon is the time of the first document.
var Noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.Local)

// Document returns a document of the daemon, n seconds after noon.
func Document(after float64, services ...nodestatus.Service) *nodestatus.Document {
	at := Noon.Add(time.Duration(after * float64(time.Second)))
	return &nodestatus.Document{
		Source: nodestatus.FromDaemon, Time: at, CountedAt: at,
		Node: "node-1", Version: "1.0", Ready: true, Counted: true, Services: services,
	}
}

// Service has all protocols in both families, with n connections each.
func Service(namespace, name string, connections uint64, active int) nodestatus.Service {
	s := nodestatus.Service{Namespace: namespace, Name: name}
	for _, family := range []string{"IPv4", "IPv6"} {
		for _, protocol := range []string{"SCTP", "TCP", "UDP"} {
			s.Ports = append(s.Ports, Port(family, protocol, connections, active))
		}
	}
	return s
}

// PortsEach is the number of ports of a Service, over both families.
const PortsEach = 6

// Port returns a port with connections, and a second endpoint that is not ready.
func Port(family, protocol string, connections uint64, active int) nodestatus.Port {
	vip, pod := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.244.1.1")
	if family == "IPv6" {
		vip, pod = netip.MustParseAddr("fd00:10:96::1"), netip.MustParseAddr("fd00:10:244:1::1")
	}
	t := nodestatus.Traffic{Connections: connections, Active: active}
	slot := 0
	return nodestatus.Port{
		Name: "p", Protocol: protocol, Family: family, Scheduler: "random", Traffic: t,
		Frontends: []nodestatus.Frontend{
			{Address: vip.String(), Port: 80, Kind: "ClusterIP", Policy: "Cluster", Verdict: nodestatus.VerdictBalance, Traffic: t},
			{Port: 30080, Kind: "NodePort", Policy: "Local", Verdict: nodestatus.VerdictBalance},
		},
		Endpoints: []nodestatus.Endpoint{
			{Address: pod.String(), Port: 8080, Slot: &slot, Node: "node-1", Conditions: &nodestatus.Conditions{Ready: true, Serving: true}, Traffic: t},
			{Address: pod.Next().String(), Port: 8080, Reason: "NotReady", Node: "node-2"},
		},
	}
}

// Script is a node with a list of answers; it repeats the last one.
type Script struct {
	Answers []any         // *nodestatus.Document or error
	Takes   time.Duration // each of them
	Asked   []nodestatus.Query
}

// Get implements [nodestatus.Source].
func (s *Script) Get(ctx context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
	s.Asked = append(s.Asked, q)
	select {
	case <-time.After(s.Takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	next := s.Answers[min(len(s.Asked), len(s.Answers))-1]
	if err, failed := next.(error); failed {
		return nil, err
	}
	d := *next.(*nodestatus.Document)
	return &d, nil
}

// Three returns three Services of different rates, some seconds after [Noon].
func Three(after float64) *nodestatus.Document {
	n := uint64(after)
	return Document(after, Service("a", "slow", n, 3), Service("b", "quick", 9*n, 1), Service("c", "middle", 5*n, 2))
}
