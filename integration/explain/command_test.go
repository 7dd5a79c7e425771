package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// command runs the program on the node and returns its output and its exit code.
func (r *rig) command(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	out := daemon.Run(r.t, r.Node.Host, append([]string{"explain", "--observe=0"}, args...)...)
	return out.Stdout, out.Stderr, out.ExitCode
}

// isUnobserved reports whether an answer is that it arrives by the rules, and that it was not
// observed whether endpoints answer: exit code 2. See response_test.go.
func isUnobserved(stdout string) bool {
	return strings.Contains(stdout, "not observed") || strings.Contains(stdout, `"answers": "unknown"`) || strings.Contains(stdout, "answers: unknown")
}

// expect runs the command and checks its exit code, and that its output has the words. 0 means
// that the packet arrives by the rules.
func (r *rig) expect(code int, words []string, args ...string) {
	r.t.Helper()
	stdout, stderr, got := r.command(args...)
	missing := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return strings.Contains(stdout+stderr, word) })
	if code == 0 && got == exit.Trouble && isUnobserved(stdout) {
		got = 0
	}
	if got != code || len(missing) > 0 {
		r.t.Errorf("explain %s: exit code %d, want %d; does not have %q\n%s%s", strings.Join(args, " "), got, code, missing, stdout, stderr)
	}
}

func to(a fmt.Stringer, p model.Protocol) string { return fmt.Sprintf("--to=%s/%s", a, p) }

func (r *rig) expectCode(code int, word string, args ...string) {
	r.t.Helper()
	if stdout, stderr, got := r.command(args...); got != code || !strings.Contains(stdout, word) {
		r.t.Errorf("explain %s: exit code %d, want %d with %q\n%s%s", strings.Join(args, " "), got, code, word, stdout, stderr)
	}
}

func TestCommandOutcomes(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Kinds: daemon.Kinds[1:], Endpoints: r.servers}
	none := daemon.Service{Name: "none", Number: 2, Kinds: daemon.Kinds[1:], Edit: func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "none"} }}
	far := daemon.Service{Name: "far", Number: 3, Kinds: daemon.Kinds[1:], Endpoints: r.servers[3:], LocalOutside: true}
	few := daemon.Service{Name: "few", Number: 4, Kinds: daemon.Kinds[1:], Endpoints: r.servers, Sources: []string{"198.18.0.0/26", "2001:db8:c::/122"}}
	sticky := daemon.Service{Name: "sticky", Number: 5, Endpoints: r.servers, Affinity: time.Hour}
	drained := daemon.Service{Name: "drained", Number: 6, Endpoints: r.servers[:2], Weights: []int{0, 2}}
	zoned := daemon.Service{Name: "zoned", Number: 7, EndpointSpec: "pod-1/zone=" + daemon.Zone(r.Node) + " pod-2/zone=elsewhere"}
	younger := daemon.Service{Name: "younger", Number: 8, Kinds: []model.Kind{model.KindExternalIP}, Edit: func(s *corev1.Service) {
		s.Spec.ExternalIPs = nil
		for _, f := range model.Families {
			s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, web.Addr(f, model.KindExternalIP).String())
		}
	}}
	annotated := func(name string, n int, annotations map[string]string) daemon.Service {
		return daemon.Service{Name: name, Number: n, Kinds: daemon.Kinds, Endpoints: r.servers, Edit: func(s *corev1.Service) { s.Annotations = annotations }}
	}
	denied := annotated("denied", 9, map[string]string{"kube-vmap.io/source-ranges": "all", "kube-vmap.io/denied-source-ranges": "198.18.0.192/26,2001:db8:c::/64"})
	elsewhere := annotated("elsewhere", 10, map[string]string{"kube-vmap.io/nodes": "role=edge"})
	r.serve(web, none, far, few, sticky, drained, zoned, younger, denied, elsewhere).Ignore("another Service holds the address and port")
	for _, w := range transports() {
		f, p := w.Family, w.Protocol
		t.Run(w.String(), func(t *testing.T) {
			r.t = t
			pod, outside := "--from="+r.Pods[3].Addr(f).String(), "--from="+daemon.ClientAddr(f, 200).String()
			at := func(s daemon.Service, k model.Kind) string { return to(s.AddrPort(r.Node, f, k, 0), p) }
			r.expect(0, []string{"default/web:" + p.String() + "-0 (ClusterIP)", "one of 5 endpoints", "keeps its address", ", out by " + r.Pods[1].Link, "picks one of 5 at random"}, pod, at(web, model.KindClusterIP))
			r.expect(0, []string{"(LoadBalancerIP)", "this node is seen as the client", "marked for masquerade"}, outside, at(web, model.KindLoadBalancerIP))
			r.expect(0, []string{"(NodePort)", "sent by this node"}, "--from="+r.Node.Addr(f).String(), at(web, model.KindNodePort))
			r.expect(1, []string{"rejected with", "no endpoint that is ready and not drained", "no endpoint in any EndpointSlice", "(spec.selector)"}, pod, at(none, model.KindClusterIP))
			r.expect(1, []string{"dropped: the Service has endpoints, but its policy is Local", "is on this node (spec.externalTrafficPolicy: Local)", "endpoints that serve are on other nodes"}, outside, at(far, model.KindExternalIP))
			r.expect(1, []string{"dropped: the client is in none of the source ranges of the Service (spec.loadBalancerSourceRanges)", "only "}, outside, at(few, model.KindLoadBalancerIP))
			for _, kind := range []model.Kind{model.KindNodePort, model.KindExternalIP} {
				r.expect(1, []string{
					"dropped: the client is in a denied source range of the Service (metadata.annotations[kube-vmap.io/denied-source-ranges])", "connections from ",
				}, outside, at(denied, kind))
			}
			r.expect(0, []string{
				"is not translated", "default/elsewhere has this address and port, but not on this node", "only other nodes serve", "(metadata.annotations[kube-vmap.io/nodes])",
			}, outside, at(elsewhere, model.KindLoadBalancerIP))
			r.expect(0, []string{"affinity does not know the client", "(spec.sessionAffinity: ClientIP)"}, pod, at(sticky, model.KindClusterIP))
			r.expect(0, []string{"default/web:" + p.String() + "-0 (ClusterIP)", "one of 5 endpoints"}, pod, "--to=svc/web:"+p.String()+"-0")
			r.expect(0, []string{"1 of 2 endpoints has weight 0: " + r.servers[0].AddrPort(f, daemon.TargetPort).String()}, pod, at(drained, model.KindClusterIP))
			r.expect(0, []string{"because hints assign it to other zones: " + r.servers[1].AddrPort(f, daemon.TargetPort).String()}, pod, at(zoned, model.KindClusterIP))
			r.expect(0, []string{"default/web:", "Service default/younger"}, outside, at(web, model.KindExternalIP))
			wrong := web.AddrPort(r.Node, f, model.KindClusterIP, 77)
			r.expect(1, []string{"rejected with", "which has no such port", "default/web, which has 80/"}, pod, to(wrong, p))
			wrong = web.AddrPort(r.Node, f, model.KindLoadBalancerIP, 77)
			r.expect(1, []string{"dropped: ", "which has no such port"}, outside, to(wrong, p))
			web2 := web
			web2.Number = 99
			r.expect(1, []string{"dropped: no Service has this address"}, pod, at(web2, model.KindClusterIP))
			r.expect(0, []string{"no address and port of a Service", "is not translated"}, pod, to(r.Pods[0].AddrPort(f, 80), p))
		})
	}
}

// TestNodePortsOnLocalhostAreThoseOfTheService has those that integration/matrix connects to.
func TestNodePortsOnLocalhostAreThoseOfTheService(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Kinds: daemon.Kinds, Endpoints: r.servers[:1]}
	r.folder.Put("services", web)
	daemon.Start(t, r.Node, r.folder, "--nodeport-addresses=primary,localhost")
	for _, f := range model.Families {
		localhost := netip.MustParseAddr([...]string{"127.0.0.1", "::1"}[f])
		at := netip.AddrPortFrom(localhost, web.AddrPort(r.Node, f, model.KindNodePort, 0).Port())
		r.expect(0, []string{"default/web (NodePort)", "kube-vmap itself accepts connections here"}, "--from="+localhost.String(), to(at, model.TCP))
		r.expect(0, []string{"no address and port of a Service", localhost.String() + " serves no node ports"}, "--from="+localhost.String(), to(at, model.UDP))
	}
}

func TestCommandNeedsTheTables(t *testing.T) {
	r := newRig(t)
	r.expect(2, []string{"there is no table kube-vmap of IPv4", "is kube-vmap running here?", "nsenter"}, "--from=10.244.1.5", "--to=10.96.0.1:80")
}
