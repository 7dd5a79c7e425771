package explain

import (
	"fmt"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestAnswersAreObservedAndNotConcluded has a Service whose only endpoint serves, and one whose
// endpoint does not listen (a wrong target port). The rules are the same.
func TestAnswersAreObservedAndNotConcluded(t *testing.T) {
	r := newRig(t)
	serves := daemon.Service{Name: "serves", Number: 1, Endpoints: r.servers[:1]}
	wrong := daemon.Service{Name: "wrong", Number: 2, Endpoints: []*lab.Host{r.Pods[3].Host}}
	far := daemon.Service{Name: "far", Number: 3, Endpoints: r.servers[3:4]}
	r.serve(serves, wrong, far)
	client := r.Pods[1]
	for _, w := range transports() {
		f, p := w.Family, w.Protocol
		t.Run(w.String(), func(t *testing.T) {
			r.t = t
			at := func(s daemon.Service) string { return to(s.AddrPort(r.Node, f, model.KindClusterIP, 0), p) }
			run := func(code int, word string, args ...string) {
				t.Helper()
				r.expectCode(code, word, append(args, "--from="+client.Addr(f).String())...)
			}
			const unknown = "Observed: the rules send packets to 1 endpoint; whether it answers was not observed"
			run(2, unknown, at(serves))
			run(2, unknown, at(wrong))
			if p == model.TCP {
				run(0, "; it answers\n", at(far), "--probe")
				run(1, "; it refuses connections\n", at(wrong), "--probe")
				r.nft("add table inet test-probe; add chain inet test-probe out { type filter hook output priority 0; }; " +
					fmt.Sprintf("add rule inet test-probe out tcp dport %d drop", daemon.TargetPort))
				run(1, "; it does not answer\n", at(far), "--probe")
				r.nft("delete table inet test-probe")
			} else {
				run(2, "--probe asked no endpoint", at(far), "--probe")
			}
			got, err := client.Ask(p, serves.AddrPort(r.Node, f, model.KindClusterIP, 0), answer)
			r.must(err)
			if got.Outcome != lab.Answered {
				t.Fatalf("asked: %s", got.Outcome)
			}
			run(0, "; it answers\n", at(serves))
			// The answer of another client counts, also to a packet that needs no translation.
			run(0, "; it answers\n", to(r.servers[0].AddrPort(f, daemon.TargetPort), p))
		})
	}
}
