package findings_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodes/onetest"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
	"kube-vmap/cmd/inspect/page/live"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

var then = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A world is a Service of both families with three endpoints, of which the first is on this
// node, and what else there is.
type world struct {
	service   model.Service
	endpoints []model.Endpoint // without addresses
	slice     model.EndpointSlice
	more      []sync.Event
	config    sync.Config
	refuse    bool // the kernel refuses the Service
	change    func(*nodestatus.Document)
	ports     []model.Protocol // all if nil
}

func newWorld() *world {
	w := &world{
		service: model.Service{Name: model.ServiceName{Namespace: "shop", Name: "web"}, Selects: true},
		slice:   model.EndpointSlice{Managed: true},
		config: sync.Config{NodeName: "worker-1", Rules: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Pods: [...]netip.Prefix{
			model.IPv4: netip.MustParsePrefix("10.244.0.0/16"), model.IPv6: netip.MustParsePrefix("fd00:244::/32"),
		}}},
	}
	for n := range 3 {
		w.endpoints = append(w.endpoints, model.Endpoint{Ready: true, Serving: true, Node: fmt.Sprintf("worker-%d", n+1)})
	}
	return w
}

func address(f model.Family, net byte, n int) netip.Addr {
	if f == model.IPv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:%d::%d", net, n+1))
	}
	return netip.AddrFrom4([4]byte{10, net, 0, byte(n + 1)})
}

// events returns the objects. Each endpoint has a slice of its own, so it can have a
// weight.
func (w *world) events() (out []sync.Event) {
	s := w.service
	ports := w.ports
	if ports == nil {
		ports = model.Protocols[:]
	}
	for k, p := range ports {
		s.Ports = append(s.Ports, model.ServicePort{Name: p.String(), Protocol: p, Port: 80})
		if s.ExternalIPs != nil || s.ExternalPolicy == model.PolicyLocal {
			s.Ports[k].NodePort = uint16(30000 + k)
		}
	}
	for _, f := range model.Families {
		s.ClusterIPs = append(s.ClusterIPs, address(f, 96, 0))
		for n, e := range w.endpoints {
			slice := w.slice
			slice.Name = model.EndpointSliceName{Namespace: "shop", Name: fmt.Sprintf("web-%s-%d", f, n)}
			slice.Service, slice.Family = s.Name, f
			if slice.Ports == nil {
				for _, p := range ports {
					slice.Ports = append(slice.Ports, model.EndpointPort{Name: p.String(), Protocol: p, Port: 8080})
				}
			}
			if n > 0 {
				slice.Drained, slice.Weight, slice.Priority = false, 0, 0
			}
			e.Addr = address(f, 244, n)
			slice.Endpoints = []model.Endpoint{e}
			out = append(out, sync.SetSlice{Slice: slice})
		}
	}
	out = append(out, sync.SetNode{Node: model.Node{Name: "worker-1", Zone: "a"}}, sync.SetService{Service: s})
	return append(out, w.more...)
}

// document returns the document of a loop that has programmed the objects.
func (w *world) document(t *testing.T) *nodestatus.Document {
	t.Helper()
	k := kerneltest.NewFaulty(kerneltest.New(), kerneltest.FaultRates{}, 1)
	if w.refuse {
		for _, p := range model.Protocols {
			k.Refuse("shop/web:"+p.String(), unix.ERANGE, 0)
		}
	}
	v := statustest.Snapshot(t, w.config, k, w.events(), nil)
	d, brief := build.FromSnapshot(&v, nodestatus.Query{}, then), build.FromSnapshot(&v, nodestatus.Query{Brief: true}, then)
	for i := range d.Services {
		if got, want := brief.Services[i].State(), d.Services[i].State(); got != want {
			t.Errorf("in brief it is %s, want %s", got, want)
		}
	}
	if w.change != nil {
		w.change(d)
	}
	return d
}

// each calls fn for each endpoint of a number.
func each(n int, fn func(*nodestatus.Endpoint)) func(*nodestatus.Document) {
	return func(d *nodestatus.Document) {
		for i := range d.Services[0].Ports {
			fn(&d.Services[0].Ports[i].Endpoints[n])
		}
	}
}

// TestFindings has a row for everything that the model knows and that makes a Service other
// than plainly balanced. The wanted lines are severity, reason and field, and a part of the
// text.
func TestFindings(t *testing.T) {
	states := map[string]string{
		"no endpoints": nodestatus.ReasonNoEndpoints, "none is ready": nodestatus.ReasonNotReady, "drained, the only one": nodestatus.ReasonDrained,
		"internal policy, none here": nodestatus.ReasonNoneLocal, "external policy, none here": nodestatus.ReasonNoneLocal,
		"another port name": nodestatus.ReasonNoPort, "unusable": model.ProblemUnusable, "a conflict": model.ProblemConflict,
		"refused by the kernel": model.ProblemRefused, "source ranges of one family": model.ProblemOpen, "affinity": nodestatus.StateOK,
		"a port that is missing": nodestatus.ReasonNotProgrammed, "for other nodes": nodestatus.ReasonElsewhere,
	}
	const (
		problem, notice = nodestatus.SeverityProblem, nodestatus.SeverityNotice
		podReady        = "status.conditions[Ready] of the pod"
		weight          = "metadata.annotations[kube-vmap.io/weight] of the EndpointSlice"
	)
	type want struct{ severity, reason, field, text string }
	ready := func(w *world, ready, serving, terminating bool, numbers ...int) {
		for _, n := range numbers {
			e := &w.endpoints[n]
			e.Ready, e.Serving, e.Terminating = ready, serving, terminating
		}
	}
	unusable := func(w *world, kind, name string, err error) {
		w.more = []sync.Event{sync.SetProblem{Object: sync.Object{Kind: kind, Namespace: "shop", Name: name}, Err: err}}
	}
	for name, test := range map[string]struct {
		change func(*world)
		want   []want
	}{
		"no endpoints": {func(w *world) { w.endpoints = nil }, []want{{problem, "NoEndpoints", "spec.selector", "the selector matches no pod"}}},
		"no endpoints and no selector": {
			func(w *world) { w.endpoints, w.service.Selects = nil, false },
			[]want{{problem, "NoEndpoints", "metadata.labels[kubernetes.io/service-name] of an EndpointSlice", "has no selector"}},
		},
		"one is not ready":          {func(w *world) { ready(w, false, false, false, 1) }, []want{{notice, "NotReady", podReady, "1 of 3 endpoints is not ready: 10.244.0.2:8080"}}},
		"one is not ready, by hand": {func(w *world) { ready(w, false, false, false, 1); w.slice.Managed = false }, []want{{notice, "NotReady", "endpoints[].conditions of the EndpointSlice", "1 of 3"}}},
		"none is ready":             {func(w *world) { ready(w, false, false, false, 0, 1, 2) }, []want{{problem, "NotReady", podReady, "3 of 3 endpoints are not ready, so every connection is refused"}}},
		"only terminating ones serve": {func(w *world) {
			ready(w, false, false, false, 0)
			ready(w, false, true, true, 1, 2)
		}, []want{
			{problem, "Fallback", podReady, "terminating ones serve: 10.244.0.2:8080"}, {notice, "NotReady", podReady, "1 of 3"},
		}},
		"all are being deleted, and serve": {func(w *world) {
			ready(w, false, true, true, 0, 1, 2)
		}, []want{{problem, "Fallback", "metadata.deletionTimestamp of the pod", "terminating ones serve: 10.244.0.1:8080"}}},
		"all are being deleted": {func(w *world) {
			ready(w, false, false, true, 0, 1, 2)
		}, []want{{problem, "NotReady", "metadata.deletionTimestamp of the pod", "3 of 3 endpoints are not ready, so every connection is refused"}}},
		"only one of this node terminates": {func(w *world) {
			w.service.ExternalPolicy = model.PolicyLocal
			ready(w, false, true, true, 0)
		}, []want{
			{notice, "Fallback", "metadata.deletionTimestamp of the pod", "no endpoint of this node is ready, so terminating ones serve where the policy is Local: 10.244.0.1"},
			{notice, "LocalPolicy", "spec.externalTrafficPolicy: Local", "1 of 3"},
		}},
		"one of this node is not ready": {func(w *world) {
			w.service.InternalPolicy = model.PolicyLocal
			ready(w, false, false, false, 0)
		}, []want{
			{problem, "NoneLocal", "spec.internalTrafficPolicy: Local", "connections of clients on this node are dropped: all 2 endpoints that serve are on other nodes"},
			{notice, "NotReady", podReady, "1 of 3"},
		}},
		"the only endpoint is elsewhere": {
			func(w *world) { w.service.InternalPolicy, w.endpoints = model.PolicyLocal, w.endpoints[1:2] },
			[]want{{problem, "NoneLocal", "spec.internalTrafficPolicy: Local", "dropped: the only endpoint that serves is on another node"}},
		},
		"endpoints of one family": {
			func(w *world) { w.oneFamily() },
			[]want{{problem, "NoEndpoints", "spec.selector", "no IPv6 endpoint in any EndpointSlice, so every IPv6 connection is refused: the selector matches no pod with an IPv6 address"}},
		},
		"published although not ready": {
			func(w *world) { ready(w, true, false, false, 2) },
			[]want{{notice, "PublishedEarly", "spec.publishNotReadyAddresses: true", "1 of 3 endpoints gets connections although its pod is not ready: 10.244.0.3"}},
		},
		"drained": {func(w *world) { w.slice.Drained = true }, []want{{notice, "Drained", weight, "1 of 3 endpoints has weight 0: 10.244.0.1"}}},
		"drained, the only one": {
			func(w *world) { w.slice.Drained, w.endpoints = true, w.endpoints[:1] },
			[]want{{problem, "Drained", weight, "the only endpoint has weight 0, so every connection is refused"}},
		},
		"held": {
			func(w *world) { w.service.Hold, w.endpoints = time.Minute, nil },
			[]want{{notice, "Held", "metadata.annotations[kube-vmap.io/hold]", "no endpoint that serves: connections wait for one"}},
		},
		"standby": {func(w *world) { w.slice.Priority = 1 }, []want{{
			notice, "StandBy", "metadata.annotations[kube-vmap.io/priority] of the EndpointSlice",
			"1 of 3 endpoints stands by, since others have a better priority: 10.244.0.1",
		}}},
		"slow start": {func(w *world) {
			w.change = func(d *nodestatus.Document) {
				for _, p := range d.EachPort() {
					p.Endpoints[0].SlowStart, p.Endpoints[1].SlowStart = "1/8", "1/2"
				}
			}
		}, []want{{
			notice, "SlowStart", "metadata.annotations[kube-vmap.io/slow-start]",
			"2 of 3 endpoints have joined others, with a part of the weight for now: 10.244.0.1:8080, 10.244.0.2:8080",
		}}},
		"different weights": {func(w *world) { w.slice.Weight = 3 }, []want{{notice, "Weights", weight, "the 3 endpoints have different weights"}}},
		"internal policy": {
			func(w *world) { w.service.InternalPolicy = model.PolicyLocal },
			[]want{{notice, "LocalPolicy", "spec.internalTrafficPolicy: Local", "clients on this node get only the endpoints of their node: 1 of 3"}},
		},
		"internal policy, none here": {
			func(w *world) { w.service.InternalPolicy, w.endpoints[0].Node = model.PolicyLocal, "worker-9" },
			[]want{{problem, "NoneLocal", "spec.internalTrafficPolicy: Local", "dropped: all 3"}},
		},
		"external policy": {
			func(w *world) { w.service.ExternalPolicy = model.PolicyLocal },
			[]want{{notice, "LocalPolicy", "spec.externalTrafficPolicy: Local", "outside the cluster get only the endpoints of the node that they connect to: 1 of 3"}},
		},
		"external policy, none here": {
			func(w *world) { w.service.ExternalPolicy, w.endpoints[0].Node = model.PolicyLocal, "worker-9" },
			[]want{{notice, "NoneLocal", "spec.externalTrafficPolicy: Local", "to this node are dropped"}},
		},
		"zone hints": {func(w *world) {
			hint(w, "a", "b", "b")
			w.service.HintsField = "spec.trafficDistribution: PreferSameZone"
		}, []want{{notice, "Hints", "spec.trafficDistribution: PreferSameZone", "2 of 3 endpoints get no connections from this node, because hints assign them to other zones"}}},
		"zone hints, by hand": {func(w *world) { hint(w, "a", "b", "b"); w.slice.Managed = false }, []want{{notice, "Hints", "endpoints[].hints of the EndpointSlice", "2 of 3"}}},
		"node hints": {func(w *world) {
			for n := range w.endpoints {
				w.endpoints[n].NodeHints = model.NameSetOf(w.endpoints[n].Node)
			}
			w.service.HintsField = "spec.trafficDistribution: PreferSameNode"
		}, []want{{notice, "Hints", "spec.trafficDistribution: PreferSameNode", "to other nodes"}}},
		"source ranges": {
			func(w *world) { loadBalancer(w); w.service.SourceRanges = ranges("192.0.2.0/24", "2001:db8::/32") },
			[]want{{notice, "SourceRanges", "spec.loadBalancerSourceRanges", "only 192.0.2.0/24, 2001:db8::/32 may connect to 10.97.0.1:80/"}},
		},
		"denied ranges": {
			func(w *world) { loadBalancer(w); w.service.DeniedRanges = ranges("192.0.2.0/24", "2001:db8::/32") },
			[]want{{notice, "SourceRanges", "metadata.annotations[kube-vmap.io/denied-source-ranges]", "connections from 192.0.2.0/24, 2001:db8::/32 to 10.97.0.1:80/"}},
		},
		"for other nodes": {
			func(w *world) { loadBalancer(w); w.service.Nodes = model.NodeSelector{{Labels: "role=edge"}} },
			[]want{{notice, "Elsewhere", "metadata.annotations[kube-vmap.io/nodes]", "only other nodes serve *:30002/sctp, 10.97.0.1:80/"}},
		},
		"source ranges of one family": {func(w *world) { loadBalancer(w); w.service.SourceRanges = ranges("192.0.2.0/24") }, []want{
			{notice, "SourceRanges", "spec.loadBalancerSourceRanges", "only 192.0.2.0/24 may"}, {notice, "OpenToAnyone", "spec.loadBalancerSourceRanges", ""},
		}},
		"affinity":    {func(w *world) { w.service.Affinity = 3 * time.Hour }, []want{{notice, "Affinity", "spec.sessionAffinity: ClientIP", "keeps its endpoint for 3h0m0s"}}},
		"source hash": {func(w *world) { w.service.Scheduler = model.SchedulerSourceHash }, []want{{notice, "Scheduler", "metadata.annotations[kube-vmap.io/scheduler]: sh", "each client"}}},
		"Maglev":      {func(w *world) { w.service.Scheduler = model.SchedulerMaglev }, []want{{notice, "Scheduler", "metadata.annotations[kube-vmap.io/scheduler]: mh", "each client"}}},
		"fewest":      {func(w *world) { w.service.Scheduler = model.SchedulerLeastConnections }, []want{{notice, "Scheduler", "metadata.annotations[kube-vmap.io/scheduler]: lc", "fewer connections"}}},
		"by the node": {func(w *world) { w.config.Scheduler = model.SchedulerSourceHash }, []want{{notice, "Scheduler", "ipvs.scheduler of the configuration: sh", "at the 6 ports"}}},
		"busy": {func(w *world) {
			w.service.Scheduler = model.SchedulerLeastConnections
			w.change = each(0, func(e *nodestatus.Endpoint) { e.Slot, e.Reason = nil, nodestatus.ReasonBusy })
		}, []want{{notice, "Scheduler", "metadata.annotations[kube-vmap.io/scheduler]: lc", ""}, {notice, "Busy", "metadata.annotations[kube-vmap.io/scheduler]: lc", "others have fewer: 10.244.0.1"}}},
		"another port name": {func(w *world) {
			w.slice.Ports = []model.EndpointPort{{Name: "admin", Protocol: model.TCP, Port: 9}}
			w.ports = model.Protocols[:2]
		}, []want{
			{problem, "NoPort", "spec.ports[].targetPort", "none of its 3 endpoints has the port tcp/TCP"},
			{problem, "NoPort", "spec.ports[].targetPort", "none of its 3 endpoints has the port udp/UDP"},
		}},
		"one without the port":  {func(w *world) { w.more = otherPort() }, []want{{notice, "NoPort", "spec.ports[].targetPort", "1 of 4 endpoints does not have the port: 10.244.0.4"}}},
		"a conflict":            {func(w *world) { w.more = holder() }, []want{{problem, "AddressConflict", "spec.clusterIPs: 10.96.0.1", "is held by Service shop/old"}}},
		"refused by the kernel": {func(w *world) { w.refuse = true }, []want{{problem, "RefusedByKernel", "", ""}, {problem, "RefusedByKernel", "", ""}, {problem, "RefusedByKernel", "", ""}}},
		"unusable": {func(w *world) {
			unusable(w, "Service", "web", field.Invalid(field.NewPath("spec", "externalIPs").Index(0), "x", ""))
		}, []want{{problem, "Unusable", "spec.externalIPs[0]", "Invalid value"}}},
		"over the budget": {func(w *world) { unusable(w, "Service", "web", errors.New("it needs 7 elements of the rule set")) }, []want{{problem, "Unusable", "", "it needs 7 elements"}}},
		"another object": {func(w *world) {
			bad := field.Invalid(field.NewPath("endpoints").Index(0).Child("addresses").Index(0), "x", "")
			unusable(w, "EndpointSlice", "bad", field.ErrorList{bad, bad}.ToAggregate())
		}, []want{{problem, "Unusable", "endpoints[0].addresses[0]", ""}}},
		"node ports nowhere": {func(w *world) {
			w.change = func(d *nodestatus.Document) {
				d.Problems = append(d.Problems, nodestatus.Problem{Object: "Node worker-1", Reason: model.ProblemNodePorts, Text: "no address"})
			}
		}, []want{{problem, "NodePorts", "nodePortAddresses of the configuration", "no address"}}},
		"a sick process": {func(w *world) {
			w.change = func(d *nodestatus.Document) {
				d.Health = &nodestatus.Health{Sync: nodestatus.Sync{FailingSince: then, Error: "no memory"}}
			}
		}, []want{{problem, "Node", "", "no memory"}}},
		"a port that is missing": {func(w *world) { w.change = func(d *nodestatus.Document) { d.Services[0].Ports[0].Frontends = nil } }, []want{{problem, "NotProgrammed", "", "tables do not have the port"}}},
		"an endpoint that is missing": {func(w *world) {
			w.change = each(2, func(e *nodestatus.Endpoint) { e.Slot, e.Reason = nil, nodestatus.ReasonNotProgrammed })
		}, []want{{problem, "NotProgrammed", "", "tables do not have 1 of 3 endpoints: 10.244.0.3"}}},
		"refusals": {
			func(w *world) { w.change = each(0, func(e *nodestatus.Endpoint) { e.Refused = 2 }) },
			[]want{{problem, "Refuses", "spec.ports[].targetPort", "1 of 3 endpoints answers with a reset, 12 times within the observation: no program listens on port 8080 there"}},
		},
		"refusals that are retried": {
			func(w *world) {
				w.change = each(0, func(e *nodestatus.Endpoint) { e.Refused = 2 })
				w.service.RetryRefused, w.ports = true, []model.Protocol{model.TCP}
			},
			[]want{{problem, "Refuses", "spec.ports[].targetPort", "4 times within the observation, and connections are retried: no program"}},
		},
		"silence": {func(w *world) { w.change = each(0, func(e *nodestatus.Endpoint) { e.Unanswered = 1 }) }, []want{
			{problem, "Silent", "", "1 of 3 endpoints does not answer, 4 connections waiting"}, {notice, "Silent", "spec.ports[].targetPort", "or the protocol has no answers"},
		}},
		"unresponsive endpoints": {func(w *world) {
			w.change = each(1, func(e *nodestatus.Endpoint) {
				e.Active, e.Unanswered = 2, 1
				e.Unresponsive = &nodestatus.Unresponsive{Since: then, Clients: 2, Connections: 4, Probes: 2, ProbesWorked: true}
				if strings.Contains(e.Address, ":") {
					e.Slot, e.Reason = nil, nodestatus.ReasonAvoided
				} else {
					e.Unresponsive.NotAvoided = nodestatus.MaxPercent
				}
			})
		}, []want{
			{problem, "EndpointUnresponsive", "endpoints[].addresses of the EndpointSlice: 10.244.0.2", "endpoint 10.244.0.2:8080/sctp, 10.244.0.2:8080/tcp, " +
				"10.244.0.2:8080/udp on node worker-2: no reply to 12 connections and to 6 probes since 2026-03-01T12:00:00Z" +
				"; not avoided, as max-percent are"},
			{problem, "EndpointUnresponsive", "endpoints[].addresses of the EndpointSlice: fd00:244::2", "since 2026-03-01T12:00:00Z; new connections avoid it"},
		}},
		"one over TCP, that two ports have": {func(w *world) {
			w.change = func(d *nodestatus.Document) {
				for i := range d.Services[0].Ports {
					if p := &d.Services[0].Ports[i]; p.Protocol == "TCP" && p.Family == "IPv4" {
						p.Endpoints[1].Unresponsive = &nodestatus.Unresponsive{Since: then, Clients: 2, Connections: 4, Probes: 2}
						d.Services[0].Ports = append(d.Services[0].Ports, *p)
					}
				}
			}
		}, []want{{
			problem, "EndpointUnresponsive", "endpoints[].addresses of the EndpointSlice: 10.244.0.2",
			"endpoint 10.244.0.2:8080/tcp on node worker-2: no reply to 4 connections of 2 clients and to 2 probes since 2026-03-01T12:00:00Z",
		}}},
		"an endpoint that v0.2.0 found": {func(w *world) {
			w.change = each(1, func(e *nodestatus.Endpoint) {
				if strings.Contains(e.Address, ":") {
					e.Unresponsive = &nodestatus.Unresponsive{Since: then, Connections: 4}
				}
			})
		}, []want{{problem, "EndpointUnresponsive", "endpoints[].addresses of the EndpointSlice: fd00:244::2", "worker-2: no reply to 12 connections since 2026"}}},
		"possibly unresponsive endpoints, one of them observed": {func(w *world) {
			w.change = func(d *nodestatus.Document) {
				d.Services[0].Ports = slices.DeleteFunc(d.Services[0].Ports, func(p nodestatus.Port) bool { return p.Protocol != "TCP" })
				each(1, func(e *nodestatus.Endpoint) {
					e.Unresponsive = &nodestatus.Unresponsive{
						Since: then, Clients: 2, Connections: 4, Probes: 2, Possibly: true, ProbesWorked: strings.Contains(e.Address, ":"),
					}
					if e.Unresponsive.ProbesWorked {
						e.Unanswered = 1
					}
				})(d)
			}
		}, []want{
			{
				notice, "EndpointPossiblyUnresponsive", "endpoints[].addresses of the EndpointSlice: 10.244.0.2",
				"2 clients get no reply from endpoint 10.244.0.2:8080/tcp on node worker-2 since 2026-03-01T12:00:00Z; " +
					"no probe of this node is known to reach it, so whether it is unresponsive is not known",
			},
			{
				notice, "EndpointPossiblyUnresponsive", "endpoints[].addresses of the EndpointSlice: fd00:244::2",
				"clients and probes get no reply from endpoint [fd00:244::2]:8080/tcp on node worker-2 since 2026-03-01T12:00:00Z; no other endpoint of the Service " +
					"has replied to a probe meanwhile, so the cause may be this node or a policy",
			},
			{problem, "Silent", "", "1 of 3 endpoints does not answer, 1 connection waiting"},
		}},
		"connections to one that is not ready": {func(w *world) {
			ready(w, false, true, true, 0)
			w.change = each(0, func(e *nodestatus.Endpoint) { e.Active = 2 })
		}, []want{{notice, "Stale", "metadata.deletionTimestamp of the pod", "open connections, 12, to endpoints"}}},
		"connections to one that is gone": {func(w *world) {
			w.change = func(d *nodestatus.Document) {
				for i := range d.Services[0].Ports {
					p := &d.Services[0].Ports[i]
					p.Endpoints = append(p.Endpoints, nodestatus.Endpoint{Address: "10.244.0.9", Port: 8080, Reason: nodestatus.ReasonGone, Traffic: nodestatus.Traffic{Active: 1}})
				}
			}
		}, []want{{notice, "Stale", "", "open connections, 6, to endpoints that get no new ones: 10.244.0.9:8080"}}},
	} {
		w := newWorld()
		test.change(w)
		d := w.document(t)
		if got := d.Services[len(d.Services)-1].State(); states[name] != "" && got != states[name] {
			t.Errorf("%s: shop/web is %s", name, got)
		}
		got := findings.Of(d)
		for i, f := range got {
			if !strings.Contains(nodestatus.ReasonsHelp(), "\n  "+f.Reason+" ") {
				t.Errorf("%s: the help does not have %s", name, f.Reason)
			}
			k := slices.IndexFunc(test.want, func(o want) bool {
				return f.Severity == o.severity && f.Reason == o.reason && f.Field == o.field && strings.Contains(f.Sentence(), o.text)
			})
			if k < 0 {
				t.Errorf("%s: unexpected %s: %+v", name, f.Sentence(), f)
				continue
			}
			test.want = slices.Delete(test.want, k, k+1)
			if i > 0 && f.IsProblem() && !got[i-1].IsProblem() {
				t.Errorf("%s: a problem comes after notices", name)
			}
		}
		if len(test.want) > 0 {
			t.Errorf("%s: without %+v", name, test.want)
		}
	}
}

// A source has a document for the page.
type source struct {
	document *nodestatus.Document
}

func (source) Nodes(context.Context) ([]nodes.Node, error) {
	return []nodes.Node{{Name: "worker-1"}}, nil
}

func (s source) Document(context.Context, nodes.Node, nodestatus.Query) (*nodestatus.Document, error) {
	return s.document, nil
}

func (s source) Findings(context.Context, nodes.Node) ([]findings.Finding, error) {
	return findings.Of(s.document), nil
}

func (s source) Tally(context.Context, nodes.Node) (*nodestatus.Tally, error) {
	return s.document.Tally(), nil
}

// TestCommandsAgreeOnEveryVerdict has Services with each verdict of the model. All commands have the
// same state and severity, and get selects by them.
func TestCommandsAgreeOnEveryVerdict(t *testing.T) {
	seen := map[string]bool{}
	for name, test := range map[string]struct {
		change                   func(*world)
		verdict, state, severity string
	}{
		"balanced":          {func(*world) {}, "Balance", "OK", "OK"},
		"without endpoints": {func(w *world) { w.endpoints = nil }, "Reject", "NoEndpoints", "Problem"},
		"none here, for clients outside": {func(w *world) {
			w.service.ExternalPolicy, w.endpoints[0].Node = model.PolicyLocal, "worker-9"
		}, "Drop", "NoneLocal", "Notice"},
		"none here, for pods": {func(w *world) {
			w.service.InternalPolicy, w.endpoints[0].Node = model.PolicyLocal, "worker-9"
		}, "Drop", "NoneLocal", "Problem"},
		"asleep":          {func(w *world) { w.service.Hold, w.endpoints = time.Minute, nil }, "Hold", "Held", "Notice"},
		"for other nodes": {func(w *world) { loadBalancer(w); w.service.Nodes = model.NodeSelector{{}} }, "Elsewhere", "Elsewhere", "Notice"},
		"asleep, and a client waits": {func(w *world) {
			w.service.Hold, w.endpoints = time.Minute, nil
			w.change = func(d *nodestatus.Document) {
				d.Services[0].Ports[0].Waiting = &nodestatus.Waiting{Clients: 1, Since: then}
			}
		}, "Hold", "Held", "Problem"},
	} {
		w := newWorld()
		test.change(w)
		d := w.document(t)
		seen[test.verdict] = true
		run := func(command func(out io.Writer) error) string {
			var out strings.Builder
			if err := command(&out); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return out.String()
		}
		node := onetest.Node(func(context.Context, nodestatus.Query) (*nodestatus.Document, error) { return d, nil })
		get := func(resource, selector string) string {
			o := get.Options{Args: []string{resource}, AllNamespaces: true, FieldSelector: selector, Output: "json"}
			return run(func(out io.Writer) error { return get.Run(t.Context(), o, node, out, out) })
		}
		if got := get("services", "status="+test.state+",severity="+test.severity); !strings.Contains(got, fmt.Sprintf(`"status": %q`, test.state)) {
			t.Errorf("%s: get prints %s", name, got)
		}
		if got := get("frontends", "spec.verdict="+test.verdict); !strings.Contains(got, `"web"`) {
			t.Errorf("%s: no frontend has the verdict %s: %s", name, test.verdict, got)
		}
		sum := d.Summary()
		if got := map[bool]string{true: "Problem"}[sum.Problems == 1] + map[bool]string{true: "Notice"}[sum.Notices == 1]; cmp.Or(got, "OK") != test.severity {
			t.Errorf("%s: the summary is %+v", name, sum)
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			page := live.New(source{d})
			page.Watch()
			go page.Run(ctx)
			<-time.After(5 * time.Second)
			cancel()
			synctest.Wait()
			got := page.Overview().Services
			if len(got) != 1 || got[0].State != test.state || got[0].Severity != test.severity {
				t.Errorf("%s: the page has %+v", name, got)
			}
		})
		worst := "OK"
		for _, f := range findings.Of(d) {
			if f.Reason == test.state && worst != "Problem" {
				worst = f.Severity
			}
		}
		if worst != test.severity {
			t.Errorf("%s: problems says %s", name, worst)
		}
	}
	for _, v := range nodestatus.Verdicts {
		if !seen[v] {
			t.Errorf("without %s", v)
		}
	}
}

// TestPlainlyBalancedServicesAreNotListed has what looks special, but lets each ready
// endpoint have the same chance for every client.
func TestPlainlyBalancedServicesAreNotListed(t *testing.T) {
	for name, change := range map[string]func(*world){
		"three endpoints":           func(*world) {},
		"a single endpoint":         func(w *world) { w.endpoints = w.endpoints[:1] },
		"without a selector":        func(w *world) { w.service.Selects, w.slice.Managed = false, false },
		"in turn":                   func(w *world) { w.service.Scheduler = model.SchedulerRoundRobin },
		"node ports and externals":  func(w *world) { loadBalancer(w) },
		"local, and all are here":   func(w *world) { w.service.InternalPolicy = model.PolicyLocal; here(w) },
		"local for externals, too":  func(w *world) { w.service.ExternalPolicy = model.PolicyLocal; here(w) },
		"affinity to the only one":  func(w *world) { w.service.Affinity, w.endpoints = time.Hour, w.endpoints[:1] },
		"hash of the only one":      func(w *world) { w.service.Scheduler, w.endpoints = model.SchedulerSourceHash, w.endpoints[:1] },
		"hints of all for all":      func(w *world) { hint(w, "a", "a", "a"); w.service.HintsField = "spec.trafficDistribution: PreferClose" },
		"hints that are incomplete": func(w *world) { hint(w, "b", "b", ""); w.service.HintsField = "spec.trafficDistribution: PreferClose" },
		"a rollout":                 func(w *world) { w.endpoints[1] = model.Endpoint{Serving: true, Terminating: true, Node: "worker-2"} },
		"the end of a pod":          func(w *world) { w.endpoints[1] = model.Endpoint{Terminating: true, Node: "worker-2"} },
		"an endpoint listed twice": func(w *world) {
			for _, f := range model.Families {
				w.more = append(w.more, sync.SetSlice{Slice: model.EndpointSlice{
					Name: model.EndpointSliceName{Namespace: "shop", Name: "again-" + f.String()}, Service: w.service.Name, Family: f, Managed: true,
					Ports: []model.EndpointPort{{Name: "tcp", Protocol: model.TCP, Port: 8080}}, Endpoints: []model.Endpoint{{Addr: address(f, 244, 0), Ready: true, Serving: true}},
				}})
			}
		},
		"connections, and answers": func(w *world) { w.change = each(0, func(e *nodestatus.Endpoint) { e.Active, e.Connections = 5, 9 }) },
		"one side of a conflict":   func(w *world) { w.service.Created = -1; w.more = holder()[:0] },
	} {
		w := newWorld()
		change(w)
		if got := findings.Of(w.document(t)); len(got) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestFindingsOfSeveralPortsAndFamiliesAreOne(t *testing.T) {
	w := newWorld()
	w.service.InternalPolicy = model.PolicyLocal
	got := findings.Of(w.document(t))
	if len(got) != 1 || !slices.Equal(slices.Sorted(slices.Values(got[0].Ports)), []string{"sctp/SCTP", "tcp/TCP", "udp/UDP"}) || !slices.Equal(got[0].Families, []string{"IPv4", "IPv6"}) ||
		len(got[0].Frontends) != 6 || got[0].Namespace != "shop" || got[0].Name != "web" || got[0].Object != "Service shop/web" {
		t.Errorf("got %+v", got)
	}
}

// TestProblemOfOnePortNamesItsOwnEndpoints has a port whose only endpoint is not ready, and another
// one of which two of three are not.
func TestProblemOfOnePortNamesItsOwnEndpoints(t *testing.T) {
	port := func(name, verdict string, ready ...bool) nodestatus.Port {
		p := nodestatus.Port{Name: name, Protocol: "TCP", Family: "IPv4", Frontends: []nodestatus.Frontend{{Address: "10.96.0.1", Port: 80, Verdict: verdict}}}
		for n, r := range ready {
			e := nodestatus.Endpoint{Address: fmt.Sprintf("10.244.0.%d", n+1), Port: 8080, Conditions: &nodestatus.Conditions{Ready: r, Serving: r}}
			if e.Slot = new(int); !r {
				e.Slot, e.Reason = nil, model.ReasonNotReady.String()
			}
			p.Endpoints = append(p.Endpoints, e)
		}
		return p
	}
	ports := []nodestatus.Port{port("one", nodestatus.VerdictReject, false), port("three", nodestatus.VerdictBalance, true, false, false)}
	for range 2 {
		slices.Reverse(ports)
		got := findings.Of(&nodestatus.Document{Source: nodestatus.FromDaemon, Services: []nodestatus.Service{{Namespace: "shop", Name: "web", Ports: ports}}})
		if len(got) != 2 || got[0].Sentence() != "the only endpoint is not ready, so every connection is refused: 10.244.0.1:8080" ||
			got[1].Sentence() != "2 of 3 endpoints are not ready: 10.244.0.2:8080, 10.244.0.3:8080" {
			t.Errorf("%+v", got)
		}
	}
}

// TestPortsWithEndpointsOfTheirOwnAreOneFindingEach has slices that differ for TCP and UDP, in both
// families, of which the nodes of a cluster find the same.
func TestPortsWithEndpointsOfTheirOwnAreOneFindingEach(t *testing.T) {
	doc := &nodestatus.Document{Source: nodestatus.FromDaemon, Services: []nodestatus.Service{{Namespace: "shop", Name: "dns"}}}
	for f, prefix := range map[model.Family]string{model.IPv4: "10.244.0.", model.IPv6: "fd00::"} {
		for n, protocol := range []string{"TCP", "UDP", "SCTP"} {
			e := nodestatus.Endpoint{Address: fmt.Sprint(prefix, n/2+1), Port: 53, Conditions: &nodestatus.Conditions{}, Reason: model.ReasonNotReady.String()}
			doc.Services[0].Ports = append(doc.Services[0].Ports, nodestatus.Port{
				Protocol: protocol, Family: f.String(), Frontends: []nodestatus.Frontend{{Verdict: nodestatus.VerdictReject}}, Endpoints: []nodestatus.Endpoint{e},
			})
		}
	}
	slices.SortStableFunc(doc.Services[0].Ports, func(a, b nodestatus.Port) int { return strings.Compare(a.Family, b.Family) })
	want := []string{"TCP,UDP: 10.244.0.1:53", "SCTP: 10.244.0.2:53"}
	var m findings.Merger
	for _, node := range []string{"node-1", "node-2"} {
		list := findings.Of(doc)
		m.Add(node, list)
		var got []string
		for _, f := range list {
			got = append(got, strings.Join(f.Ports, ",")+": "+strings.Join(f.Named, ","))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if merged := m.Sorted(); len(merged) != len(want) {
		t.Errorf("of two nodes: %+v", merged)
	}
}

// TestFindingsOfManyPortsAreLimited has ports with an endpoint of their own each.
func TestFindingsOfManyPortsAreLimited(t *testing.T) {
	s := nodestatus.Service{Name: "web"}
	for n := range 100 {
		e := nodestatus.Endpoint{Address: fmt.Sprint("10.244.0.", n), Port: 80, Conditions: &nodestatus.Conditions{}, Reason: model.ReasonNotReady.String()}
		s.Ports = append(s.Ports, nodestatus.Port{
			Name: fmt.Sprint(n), Protocol: "TCP", Family: "IPv4", Frontends: []nodestatus.Frontend{{Verdict: nodestatus.VerdictReject}}, Endpoints: []nodestatus.Endpoint{e},
		})
	}
	if got := findings.Of(&nodestatus.Document{Services: []nodestatus.Service{s}}); len(got) != 20 {
		t.Errorf("%d findings", len(got))
	}
}

// TestFailureOfOneFamilyNamesIt has a Service of which only the IPv6 endpoint is not ready.
func TestFailureOfOneFamilyNamesIt(t *testing.T) {
	one := nodestatus.Port{
		Family: "IPv4", Protocol: "TCP", Frontends: []nodestatus.Frontend{{Verdict: nodestatus.VerdictBalance}},
		Endpoints: []nodestatus.Endpoint{{Address: "10.244.0.1", Port: 80, Slot: new(int), Conditions: &nodestatus.Conditions{Ready: true, Serving: true}}},
	}
	other := nodestatus.Port{Family: "IPv6", Protocol: "TCP", Frontends: make([]nodestatus.Frontend, 1)}
	rejects := nodestatus.Frontend{Verdict: nodestatus.VerdictReject}
	for want, why := range map[string]struct {
		frontend nodestatus.Frontend
		reason   model.Reason
	}{
		"the only endpoint is not ready, so every IPv6 connection is refused: [fd00::1]:80": {rejects, model.ReasonNotReady},
		"the only endpoint has weight 0, so every IPv6 connection is refused: [fd00::1]:80": {rejects, model.ReasonDrained},
		"IPv6 connections of clients on this node are dropped: the only endpoint that serves is on another node": {
			nodestatus.Frontend{Verdict: nodestatus.VerdictDrop, Policy: "Local", Kind: "ClusterIP"}, model.ReasonNotLocal,
		},
		"IPv6 connections from outside the cluster to this node are dropped: the only endpoint that serves is on another node": {
			nodestatus.Frontend{Verdict: nodestatus.VerdictDrop, Policy: "Local", Kind: "NodePort"}, model.ReasonNotLocal,
		},
	} {
		reason := why.reason.String()
		other.Frontends[0] = why.frontend
		other.Endpoints = []nodestatus.Endpoint{{Address: "fd00::1", Port: 80, Conditions: &nodestatus.Conditions{}, Reason: reason}}
		got := findings.Of(&nodestatus.Document{Services: []nodestatus.Service{{Name: "web", Ports: []nodestatus.Port{one, other}}}})
		if len(got) != 1 || got[0].Sentence() != want {
			t.Errorf("want %q: %+v", want, got)
		}
	}
}

// TestEveryReasonOfEndpointsHasAField fails if a reason is added without its field.
func TestEveryReasonOfEndpointsHasAField(t *testing.T) {
	none := []string{model.ReasonDuplicate.String(), nodestatus.ReasonNotProgrammed, nodestatus.ReasonAvoided, nodestatus.ReasonGone}
	for _, reason := range nodestatus.Reasons() {
		field := nodestatus.FieldOf(&nodestatus.Service{}, &nodestatus.Endpoint{Reason: reason})
		if (field == "") != slices.Contains(none, reason) {
			t.Errorf("%s: field %q", reason, field)
		}
	}
}

// oneFamily removes the slices of IPv6.
func (w *world) oneFamily() {
	for n := range w.endpoints {
		w.more = append(w.more, sync.DeleteSlice{Name: model.EndpointSliceName{Namespace: "shop", Name: fmt.Sprintf("web-%s-%d", model.IPv6, n)}})
	}
}

// here puts all endpoints on this node.
func here(w *world) {
	for n := range w.endpoints {
		w.endpoints[n].Node = "worker-1"
	}
}

func hint(w *world, zones ...string) {
	for n, z := range zones {
		w.endpoints[n].ZoneHints = model.NameSetOf(z)
	}
}

func loadBalancer(w *world) {
	for _, f := range model.Families {
		w.service.LoadBalancerIPs = append(w.service.LoadBalancerIPs, address(f, 97, 0))
		w.service.ExternalIPs = append(w.service.ExternalIPs, address(f, 98, 0))
	}
}

func ranges(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// otherPort returns slices with an endpoint more, which has another port.
func otherPort() (out []sync.Event) {
	for _, f := range model.Families {
		out = append(out, sync.SetSlice{Slice: model.EndpointSlice{
			Name: model.EndpointSliceName{Namespace: "shop", Name: "other-" + f.String()}, Service: model.ServiceName{Namespace: "shop", Name: "web"}, Family: f, Managed: true,
			Ports: []model.EndpointPort{{Name: "admin", Protocol: model.TCP, Port: 9}}, Endpoints: []model.Endpoint{{Addr: address(f, 244, 3), Ready: true, Serving: true}},
		}})
	}
	return out
}

// holder returns an older Service that has the ClusterIP of one port.
func holder() []sync.Event {
	return []sync.Event{sync.SetService{Service: model.Service{
		Name: model.ServiceName{Namespace: "shop", Name: "old"}, Created: -1, ClusterIPs: []netip.Addr{address(model.IPv4, 96, 0)},
		Ports: []model.ServicePort{{Name: "tcp", Protocol: model.TCP, Port: 80}}, Selects: true,
	}}, sync.SetSlice{Slice: model.EndpointSlice{
		Name: model.EndpointSliceName{Namespace: "shop", Name: "old"}, Service: model.ServiceName{Namespace: "shop", Name: "old"}, Managed: true,
		Ports: []model.EndpointPort{{Name: "tcp", Protocol: model.TCP, Port: 8080}}, Endpoints: []model.Endpoint{{Addr: address(model.IPv4, 244, 7), Ready: true, Serving: true}},
	}}}
}
