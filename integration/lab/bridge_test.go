package lab_test

import (
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// Packets between pods of a node bypass its routing, but pass its rules.
func TestBridgedPacketsPassIPHooks(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2, Bridge: true})
	serveAll(t, l.Pods[1].Host)
	const table = "table inet firewall { chain forward { type filter hook forward priority 0; iifname " + lab.BridgeName + " th dport 8080 drop; }; }"
	if out, err := l.Node.Command(t.Context(), "nft", table).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	forAll(t, func(t *testing.T, p model.Protocol, f model.Family) {
		if a := must(t, l.Pods[0].Host, p, l.Pods[1].AddrPort(f, port), silence); a.Outcome != lab.TimedOut {
			t.Error(a)
		}
	})
}
