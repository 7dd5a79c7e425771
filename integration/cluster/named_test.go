package cluster_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// edge are the flags of a proxy with a name.
var edge = []string{"--service-proxy-name=edge", "--healthz-bind-address=0.0.0.0:20256", "--metrics-bind-address=127.0.0.1:20249"}

const edgeReady = "http://127.0.0.1:20256/readyz"

// TestNamedProxyNextToTheNodesOwn runs both on a node, in both orders. Of each only the Services that
// are for it are served, and a Service moves from one to the other and back.
func TestNamedProxyNextToTheNodesOwn(t *testing.T) {
	t.Parallel()
	for _, own := range []string{"kube-vmap", "nftables", "iptables"} {
		for _, namedFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, named first %t", own, namedFirst), func(t *testing.T) {
				t.Parallel()
				newNeighbours(t, own).run(t, namedFirst)
			})
		}
	}
}

// neighbours are the node's own proxy, kube-vmap or kube-proxy in a mode, and one with a name.
type neighbours struct {
	*move
	own   string
	named *clustertest.Proxy
}

func newNeighbours(t *testing.T, own string) *neighbours {
	t.Helper()
	c := newScene(t, clustertest.New, lab.Options{Pods: 3})
	program, err := plane.Program("kube-proxy")
	clustertest.Must(t, err)
	return &neighbours{move: &move{scene: c, mode: own, program: program, kubeconfig: c.Kubeconfig(t, c.Server)}, own: own}
}

func (n *neighbours) run(t *testing.T, namedFirst bool) {
	web, more := n.manualService(t, "web", n.Lab.Pods[0]), n.manualService(t, "more", n.Lab.Pods[1])
	n.label(t, "more", "edge")
	starts := []func(*testing.T){n.startOwn, n.startNamed}
	if namedFirst {
		starts[0], starts[1] = starts[1], starts[0]
	}
	for _, start := range starts {
		start(t)
	}
	for _, of := range []string{"", "edge", ""} { // whom web is for
		n.label(t, "web", of)
		n.serve(t, map[*traffic.Target]bool{&web: of == "edge", &more: true})
		checkAnswered(t, n.clients, web, "pod-1")
		checkAnswered(t, n.clients, more, "pod-2")
	}
	if found := n.findKubeProxy(t); len(found.Suspended()) > 0 || len(found.Awake()) > 0 != (n.own != "kube-vmap") {
		t.Errorf("of kube-proxy's rules are suspended %v, and in effect %v", found.Suspended(), found.Awake())
	}
	if namedFirst {
		clustertest.Must(t, n.named.Stop())
		n.command(t, 0, "cleanup", edge[0])
		checkAnswered(t, n.clients, web, "pod-1")
		n.checkSilent(t, more)
	} else {
		n.removeOwn(t)
		checkAnswered(t, n.clients, more, "pod-2")
		n.checkSilent(t, web)
	}
}

func (n *neighbours) startOwn(t *testing.T) {
	t.Helper()
	if n.own != "kube-vmap" {
		n.kubeProxy(t)
		return
	}
	n.runProxy(t, n.kubeconfig)
	clustertest.Must(t, n.proxy.AwaitReady(clustertest.Context(t)))
}

func (n *neighbours) startNamed(t *testing.T) {
	t.Helper()
	n.named = n.StartProxy(t, n.Lab.Node, n.kubeconfig, edge...)
	clustertest.Must(t, n.named.AwaitStatus(clustertest.Context(t), edgeReady, 200))
}

// removeOwn ends the node's own proxy and removes its rules.
func (n *neighbours) removeOwn(t *testing.T) {
	t.Helper()
	if n.own == "kube-vmap" {
		clustertest.Must(t, n.proxy.Stop())
		n.command(t, 0, "cleanup", "--force")
		return
	}
	n.killTheirs(t)
	n.node(t, "", n.program, "--cleanup")
	if left := n.left(t); left != "" {
		t.Errorf("left is\n%s", left)
	}
}

// checkSilent checks that a pod gets no answer.
func (n *neighbours) checkSilent(t *testing.T, to traffic.Target) {
	t.Helper()
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		if a, err := n.clients[0].AskWithin(w, to.At(w.Family), silence); err != nil || a.Outcome == lab.Answered {
			t.Errorf("%s over %s: %s, %v", to.Name, w, a, err)
		}
	})
}

// label gives a Service to a proxy.
func (n *neighbours) label(t *testing.T, service, name string) {
	t.Helper()
	_, err := n.ns.ChangeService(clustertest.Context(t), service, func(s *corev1.Service) {
		delete(s.Labels, model.LabelServiceProxyName)
		if name != "" {
			s.Labels = map[string]string{model.LabelServiceProxyName: name}
		}
	})
	clustertest.Must(t, err)
}

// tablesOf returns the tables of a name, of all in a listing.
func tablesOf(listing, name string) string {
	tables := regexp.MustCompile(`(?ms)^table ip6? ` + regexp.QuoteMeta(name) + ` .*?^}\n`)
	return strings.Join(tables.FindAllString(listing, -1), "")
}

// serve waits until in both families the proxy with the name has the Services of which named is true, and
// the node's own has the others.
func (n *neighbours) serve(t *testing.T, named map[*traffic.Target]bool) {
	t.Helper()
	clustertest.Must(t, n.named.Daemon.Await(clustertest.Context(t), "rules of the Services", func() error {
		for _, f := range model.Families {
			all := n.node(t, "", "nft", "list", "ruleset", []string{"ip", "ip6"}[f])
			own := tablesOf(all, "kube-vmap") + tablesOf(all, "kube-proxy") +
				linesWith(n.node(t, "", iptables[f]+"-save"), "-A KUBE-SERVICES ")
			for to, want := range named {
				has := func(rules string) bool { return strings.Contains(linesWith(rules, to.Name), to.Addrs[f].String()) }
				if has(tablesOf(all, "kube-vmap.edge")) != want || has(own) == want {
					return fmt.Errorf("%s: of %s only the proxy with a name has rules is not %t", f, to.Name, want)
				}
			}
		}
		return nil
	}))
}
