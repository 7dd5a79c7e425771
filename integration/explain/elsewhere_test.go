package explain

import (
	"encoding/json"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// TestAnswerNamesTheNodeOfTheClient runs on node-1 for clients on this node and elsewhere.
func TestAnswerNamesTheNodeOfTheClient(t *testing.T) {
	r := newRig(t)
	web := daemon.Service{Name: "web", Number: 1, Kinds: daemon.Kinds[1:], Endpoints: r.servers}
	near := daemon.Service{Name: "near", Number: 2, Kinds: daemon.Kinds[1:], Endpoints: r.servers[:1]}
	d := r.serve(web, near)
	const there = "kubectl vmap explain --from "
	for _, w := range transports() {
		f, p := w.Family, w.Protocol
		t.Run(w.String(), func(t *testing.T) {
			r.t = t
			remote, via := r.RemotePods[1].Addr(f).String(), "by way of "+r.Remote.Addr(f).String()
			outside, neighbour := daemon.ClientAddr(f, 201).String(), r.Outside.Addr(f).String()
			at := func(s daemon.Service, k model.Kind) string { return to(s.AddrPort(r.Node, f, k, 0), p) }
			for _, k := range []model.Kind{model.KindClusterIP, model.KindExternalIP, model.KindLoadBalancerIP} {
				r.expect(2, []string{
					"is a pod of node node-2, " + via, there + "'" + remote + "'", "if it arrives here unchanged",
				}, "--from="+remote, at(web, k))
				r.expect(2, []string{
					"is a pod of another node, " + via, there,
				}, "--from="+remote, at(near, k))
			}
			for from, how := range map[string]string{outside: ", by way of " + neighbour, neighbour: ""} {
				r.expect(0, []string{from + " is not on this node" + how + ".", "If it is a pod or a node", "kubectl vmap explain", "\nResult:", "outside the cluster"},
					"--from="+from, at(web, model.KindLoadBalancerIP))
			}
			// No other node translates packets to addresses of this one.
			for from, kinds := range map[string][]model.Kind{
				remote: {model.KindNodePort}, outside: {model.KindNodePort},
				r.Node.Addr(f).String():    {model.KindClusterIP, model.KindLoadBalancerIP, model.KindNodePort},
				r.Pods[3].Addr(f).String(): {model.KindClusterIP, model.KindLoadBalancerIP, model.KindNodePort},
				r.Pods[0].Addr(f).String(): {model.KindClusterIP}, // an endpoint
			} {
				for _, k := range kinds {
					stdout, _, code := r.command("--from="+from, at(web, k))
					if code != exit.Trouble || !isUnobserved(stdout) || strings.Contains(stdout, "node of the cluster") || strings.Contains(stdout, "whose rules decide") || !strings.Contains(stdout, "\nResult:") {
						t.Errorf("%s to the %s: exit code %d\n%s", from, k, code, stdout)
					}
				}
			}
			stdout, _, _ := r.command("--from="+remote, at(web, model.KindClusterIP), "-o", "json")
			var got struct {
				Arrives   string
				Elsewhere struct {
					Pod       bool
					Node, Via string
					Ask       []string
				}
			}
			r.must(json.Unmarshal([]byte(stdout), &got))
			if e := got.Elsewhere; got.Arrives != "unknown" || !e.Pod || e.Node != "node-2" || "by way of "+e.Via != via || len(e.Ask) != 2 || !strings.HasPrefix(e.Ask[0], "kubectl vmap explain --from '"+remote+"' --to ") {
				t.Errorf("%+v", got)
			}
		})
	}
	r.t = t
	d.Kill() // the kernel does not know pods
	f := model.IPv6
	r.expect(1, []string{"is not on this node, by way of " + r.Remote.Addr(f).String(), "only this node could translate the reply back"},
		"--from="+r.RemotePods[0].Addr(f).String(), to(web.AddrPort(r.Node, f, model.KindClusterIP, 0), model.TCP))
}
