package security

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// TestWhoMakesDemand has a client that a policy denies after chain filter-forward, and an author who
// names another's pod.
func TestWhoMakesDemand(t *testing.T) {
	l, f := newLab(t)
	daemon.RouteServices(t, l, l.Node)
	scales := func(s *corev1.Service) { s.Annotations["kube-vmap.io/scale-to-zero"] = "true" }
	sleeper, used, curious := daemon.Service{Name: "sleeper", Number: 1}, second(l, "used", 2), second(l, "curious", 3)
	sleeper.Edit, curious.Edit, curious.Namespace = scales, scales, "other"
	f.Put("services", sleeper, used, curious)
	daemon.Start(t, l.Node, f)
	demand := func(name string) (n int) {
		page, err := l.Node.Get("http://127.0.0.1:10249/metrics", answer)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, fmt.Sprintf("kubevmap_service_demand{service_name=%q", name)) {
				_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n)
			}
		}
		return n
	}
	rules := "add table inet later; add chain inet later forward { type filter hook forward priority 10; };"
	for _, family := range model.Families {
		rules += fmt.Sprintf("add rule inet later forward %s saddr %s drop;", nft.FamilyName(family), l.Pods[0].Addr(family))
	}
	labtest.Run(t, l.Node.Host, "", "nft", rules)
	for _, w := range daemon.Transports() {
		if a, err := l.Pods[0].Ask(w.Protocol, sleeper.ClusterAddrPort(w.Family), 100*time.Millisecond); err != nil || a.Outcome != lab.TimedOut {
			t.Errorf("a held client: %s, %v", a, err)
		}
		flow, err := l.Outside.Flow(w.Protocol, netip.AddrPort{}, used.ClusterAddrPort(w.Family))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := flow.Ask(answer); err != nil || a.Outcome != lab.Answered {
			t.Errorf("a client: %s, %v", a, err)
		}
	}
	eventually.Holds(t, "the denied client makes demand", func() bool { return demand("sleeper") == len(daemon.Transports()) })
	eventually.Holds(t, "the author learns of others' clients", func() bool { return demand("curious") == len(daemon.Transports()) })
	if n := demand("used"); n > 0 {
		t.Errorf("a demand of %d for a Service that does not scale to zero", n)
	}
}
