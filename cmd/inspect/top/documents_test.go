package top

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/cmd/inspect/status"
)

// noon is the time of the first document.
var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.Local)

// document returns a document of the daemon, n seconds after noon.
func document(after float64, services ...status.Service) *status.Document {
	at := noon.Add(time.Duration(after * float64(time.Second)))
	return &status.Document{
		Source: status.FromDaemon, Time: at, CountedAt: at,
		Node: "node-1", Version: "1.0", Ready: true, Counted: true, Services: services,
	}
}

// service has all protocols in both families, with n connections each.
func service(namespace, name string, connections uint64, active int) status.Service {
	s := status.Service{Namespace: namespace, Name: name}
	for _, family := range []string{"IPv4", "IPv6"} {
		for _, protocol := range []string{"SCTP", "TCP", "UDP"} {
			s.Ports = append(s.Ports, port(family, protocol, connections, active))
		}
	}
	return s
}

// portsEach is the number of ports of a Service, over both families.
const portsEach = 6

func port(family, protocol string, connections uint64, active int) status.Port {
	vip, pod := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.244.1.1")
	if family == "IPv6" {
		vip, pod = netip.MustParseAddr("fd00:10:96::1"), netip.MustParseAddr("fd00:10:244:1::1")
	}
	t := status.Traffic{Connections: connections, Active: active}
	slot := 0
	return status.Port{
		Name: "p", Protocol: protocol, Family: family, Scheduler: "random", Traffic: t,
		Frontends: []status.Frontend{
			{Address: vip.String(), Port: 80, Kind: "ClusterIP", Policy: "Cluster", Verdict: status.VerdictBalance, Traffic: t},
			{Port: 30080, Kind: "NodePort", Policy: "Local", Verdict: status.VerdictBalance},
		},
		Endpoints: []status.Endpoint{
			{Address: pod.String(), Port: 8080, Slot: &slot, Node: "node-1", Conditions: &status.Conditions{Ready: true, Serving: true}, Traffic: t},
			{Address: pod.Next().String(), Port: 8080, Reason: "NotReady", Node: "node-2"},
		},
	}
}

// crowd returns n Services in a brief document.
func crowd(n int, times uint64) []status.Service {
	out := make([]status.Service, n)
	for i := range out {
		t := status.Traffic{Connections: uint64(i) * times, Active: i % 7}
		out[i] = status.Service{
			Namespace: fmt.Sprintf("team-%03d", i/100), Name: fmt.Sprintf("service-%05d", i), Addresses: &status.Addresses{Used: 2, All: 3},
		}
		for _, family := range []string{"IPv4", "IPv6"} {
			out[i].Ports = append(out[i].Ports, status.Port{
				Protocol: "TCP", Family: family, Traffic: t,
				Frontends: []status.Frontend{{Port: 80, Kind: "ClusterIP", Policy: "Cluster", Verdict: status.VerdictBalance}},
			})
		}
	}
	return out
}

// script is a source with a list of answers; it repeats the last one.
type script struct {
	answers []any // *status.Document or error
	asked   []status.Query
}

func (s *script) get(_ context.Context, q status.Query) (*status.Document, error) {
	s.asked = append(s.asked, q)
	next := s.answers[min(len(s.asked), len(s.answers))-1]
	if err, severityProblem := next.(error); severityProblem {
		return nil, err
	}
	return only(next.(*status.Document), q), nil
}

// only returns the queried part of a document.
func only(d *status.Document, q status.Query) *status.Document {
	out := *d
	out.Services = nil
	for _, s := range d.Services {
		if (q.Namespace == "" || q.Namespace == s.Namespace) && (q.Name == "" || q.Name == s.Name) {
			out.Services = append(out.Services, s)
		}
	}
	return &out
}
