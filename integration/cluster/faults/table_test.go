package faults

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// fault is something wrong with a cluster.
type fault struct {
	name    string
	symptom string // what a user reports. NS is the namespace, NODE-1 the name of a node
	// command finds it, in the same form. Its output has all of want: the cause, and the
	// field of an object.
	command string
	want    []string // parts of its output; " | " separates alternatives
	// without is what would be a wrong cause.
	without string
	set     func(*scene)
	// fails checks that packets show the symptom.
	fails func(*scene) error
}

// explained is the command about a client and the Service web.
const explained = "explain --from pod/NS/client-1 --to svc/NS/web"

// problems is the command about the Services of the namespace.
const problems = "problems -n NS"

var faults = []fault{
	{
		name: "wrong selector", symptom: "nothing answers at Service NS/web",
		command: problems, want: []string{"web", "spec.selector"},
		set: func(s *scene) {
			s.web(0, 1, 2)
			s.service(0, func(o *corev1.Service) { o.Spec.Selector = map[string]string{objects.App: "webshop"} })
		},
		fails: func(s *scene) error { return s.client(0).Comes(s.target(), lab.Refused, traffic.Timeout) },
	},
	{
		name: "wrong number of a target port", symptom: "connections to Service NS/web are refused",
		command: problems, want: []string{"web", "spec.ports[].targetPort", "8081"},
		set: func(s *scene) {
			s.web(0, 1, 2)
			s.service(3, func(o *corev1.Service) { o.Spec.Ports = objects.Ports(port, targetPort+1) })
			s.ask(s.client(0), s.target())
		},
		fails: func(s *scene) error {
			return s.client(0).Comes(s.target(), lab.Refused, traffic.Timeout, traffic.Over(model.TCP, model.UDP)...)
		},
	},
	{
		name: "internalTrafficPolicy Local", symptom: "Pod NS/client-1 gets no answer from Service NS/web, client-2 does",
		command: explained, want: []string{"spec.internalTrafficPolicy: Local"}, without: "spec.externalTrafficPolicy",
		set: func(s *scene) {
			s.web(1)
			s.service(1, func(o *corev1.Service) {
				local := corev1.ServiceInternalTrafficPolicyLocal
				o.Spec.InternalTrafficPolicy = &local
			})
		},
		fails: func(s *scene) error { return s.client(0).Comes(s.target(), lab.TimedOut, silence) },
	},
	{
		name: "externalTrafficPolicy Local", symptom: "the load balancer of Service NS/web finds NODE-1 down; clients that it sends there wait",
		command: problems, want: []string{"web", "spec.externalTrafficPolicy: Local", "NODE-1"},
		set: func(s *scene) {
			s.web(1)
			s.service(1, func(o *corev1.Service) {
				o.Spec.Type, o.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
			})
		},
		fails: func(s *scene) error {
			return traffic.From(s.cluster.Lab.Outside).Comes(traffic.NodePort(s.get(), s.cluster.Lab.Node), lab.TimedOut, silence, traffic.Over(model.TCP)...)
		},
	},
	{
		name: "source ranges", symptom: "clients at 192.0.2.100 get no answer from the load balancer address of Service NS/web",
		command: "explain --from 192.0.2.100 --to svc/NS/web", want: []string{"spec.loadBalancerSourceRanges"},
		set: func(s *scene) {
			s.web(0, 1, 2)
			s.service(3, func(o *corev1.Service) {
				o.Spec.Type, o.Spec.LoadBalancerSourceRanges = corev1.ServiceTypeLoadBalancer, []string{"198.51.100.0/24", "2001:db8:3::/48"}
			})
			var ingress []corev1.LoadBalancerIngress
			for _, a := range s.external() {
				ingress = append(ingress, corev1.LoadBalancerIngress{IP: a.String()})
			}
			s.must(s.ns.SetLoadBalancer(s.context(), "web", ingress...))
		},
		fails: func(s *scene) error {
			return traffic.From(s.cluster.Lab.Outside).Comes(traffic.Target{Name: "load balancer", Addrs: s.external(), Port: port}, lab.TimedOut, silence)
		},
	},
	{
		name: "rule of another program on one node", symptom: "a third of the connections of Pod NS/client-1 to Service NS/web time out",
		command: explained, want: []string{"table inet firewall", "NODE-2", "web-2"},
		set: func(s *scene) {
			for i := range s.cluster.Nodes {
				_, err := s.ns.CreatePod(s.context(), fmt.Sprintf("web-%d", i+1), "web", s.cluster.At(s.pods(i)[1]))
				s.must(err)
			}
			s.service(3)
			pod := s.pods(1)[1]
			s.run(1, fmt.Sprintf(`table inet firewall {
				chain filter {
					type filter hook forward priority 0; policy accept;
					ip saddr %s drop
					ip6 saddr %s drop
				}
			}`, pod.Addr(model.IPv4), pod.Addr(model.IPv6)), "nft", "-f", "-")
		},
		fails: func(s *scene) error {
			if err := s.client(0).AnsweredBy(s.target(), "pod-2", "remote-2", "third-2"); err == nil {
				return fmt.Errorf("every connection is answered")
			}
			return nil
		},
	},
	{
		name: "sticky client", symptom: "all requests of Pod NS/client-1 reach the same Pod of Service NS/web",
		command: explained, want: []string{"spec.sessionAffinity: ClientIP"},
		set: func(s *scene) {
			s.web(0, 1, 2)
			s.service(3, func(o *corev1.Service) { o.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
			s.ask(s.client(0), s.target())
		},
		fails: func(s *scene) error {
			if err := s.client(0).AnsweredBy(s.target(), "pod-1", "remote-1", "third-1"); err == nil {
				return fmt.Errorf("several Pods answer")
			}
			return nil
		},
	},
	{
		name: "Pod that hangs", symptom: "a third of the connections to Service NS/web time out, all its Pods are ready",
		command: problems, want: []string{"does not answer | no reply", "web-3"},
		set: func(s *scene) {
			for i := range s.cluster.Nodes[:2] {
				_, err := s.pods(i)[0].Serve(model.TCP, hangPort)
				s.must(err)
			}
			backlog, err := s.pods(2)[0].Backlog(hangPort)
			s.must(err)
			s.must(backlog.Shrink())
			s.web(0, 1, 2)
			s.service(3, func(o *corev1.Service) {
				o.Spec.Ports = []corev1.ServicePort{objects.Port(model.TCP, port, hangPort)}
			})
			s.ask(s.client(0), s.target())
		},
		fails: timesOut,
	},
	{ // after all but the next: its node does not follow what later ones would change
		name: "node without connection to the API server", symptom: "clients on NODE-3 get no answer from Service NS/web, others do",
		command: "status", want: []string{"NODE-3", "behind"},
		set: func(s *scene) {
			s.service(0)
			s.cluster.AwaitRules(s)
			s.run(2, `table inet firewall {
				chain out {
					type filter hook output priority 0; policy accept;
					ip daddr 192.0.2.100 tcp dport 6443 drop
				}
				chain in {
					type filter hook input priority 0; policy accept;
					ip saddr 192.0.2.100 tcp sport 6443 drop
				}
			}`, "nft", "-f", "-")
			s.web(0, 1, 2)
			s.must(s.ns.AwaitEndpoints(s.context(), "web", 3))
		},
		fails: func(s *scene) error { return s.client(2).Comes(s.target(), lab.Refused, traffic.Timeout) },
	},
	{ // the last one
		name: "node that is gone", symptom: "since a minute ago, a third of the connections to Service NS/web time out",
		command: problems, want: []string{"does not answer | no reply", "web-3", "NODE-3"},
		set: func(s *scene) {
			s.web(0, 1, 2)
			s.service(3)
			s.must(eventually.Try(s.context(), func() error { return s.client(0).AnsweredBy(s.target(), "pod-1", "remote-1", "third-1") }))
			s.run(2, "", "ip", "link", "set", "eth0", "down")
			s.ask(s.client(0), s.target())
		},
		fails: timesOut,
	},
}

// timesOut checks that an endpoint does not answer TCP.
func timesOut(s *scene) error {
	return s.client(0).Comes(s.target(), lab.TimedOut, silence, traffic.Over(model.TCP)...)
}
