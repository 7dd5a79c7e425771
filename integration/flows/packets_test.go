package flows

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/sync"
)

// translate makes the node send UDP for the address to an endpoint, masqueraded, or refuse it if
// by is invalid.
func translate(t *testing.T, node *lab.Node, to, by netip.AddrPort) {
	t.Helper()
	family := "ip"
	if to.Addr().Is6() {
		family = "ip6"
	}
	match := fmt.Sprintf("%s daddr %s udp dport %d", family, to.Addr(), to.Port())
	dnat, refuse := match+" dnat to "+by.String(), ""
	if !by.IsValid() {
		dnat, refuse = "", match+" ct state new reject"
	}
	script := fmt.Sprintf(`
		add table %[1]s test
		flush table %[1]s test
		add chain %[1]s test pre { type nat hook prerouting priority -100; }
		add chain %[1]s test out { type nat hook output priority -100; }
		add chain %[1]s test post { type nat hook postrouting priority 100; }
		add chain %[1]s test forward { type filter hook forward priority 0; }
		add chain %[1]s test refuse { type filter hook output priority 0; }
		add rule %[1]s test post udp dport != 0 masquerade
		%[2]s
		%[3]s
	`, family, rules(family, dnat, "pre", "out"), rules(family, refuse, "forward", "refuse"))
	cmd := node.Command(t.Context(), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s\n%s", err, out, script)
	}
}

func rules(family, rule string, chains ...string) string {
	if rule == "" {
		return ""
	}
	var lines []string
	for _, c := range chains {
		lines = append(lines, fmt.Sprintf("add rule %s test %s %s", family, c, rule))
	}
	return strings.Join(lines, "\n")
}

// TestSenderIsMovedToAnotherEndpoint follows one flow of real packets through the life of a
// Service, from a pod and from the node. It keeps its source port, as DNS proxies and log
// senders do.
func TestSenderIsMovedToAnotherEndpoint(t *testing.T) {
	t.Parallel()
	for _, f := range model.Families {
		for _, from := range []string{"pod", "node"} {
			t.Run(f.String()+" from a "+from, func(t *testing.T) {
				t.Parallel()
				l := labtest.New(t, lab.Options{Pods: 3})
				client := l.Pods[2].Host
				if from == "node" {
					client = l.Node.Host
				}
				for _, pod := range l.Pods[:2] {
					if _, err := pod.Serve(model.UDP, 5353); err != nil {
						t.Fatal(err)
					}
				}
				followServiceLife(t, l, f, client)
			})
		}
	}
}

func followServiceLife(t *testing.T, l *lab.Lab, f model.Family, client *lab.Host) {
	vip := netip.AddrPortFrom(addressPlan[f]["vip"], 53)
	x := &table{t: t, host: l.Node.Host}
	follower := x.follow(x.open())
	sender, err := client.Flow(model.UDP, netip.AddrPort{}, vip)
	if err != nil {
		t.Fatal(err)
	}
	committed := func(endpoints ...netip.AddrPort) sync.Committed {
		return sync.Committed{Set: []model.Frontend{frontend(f, model.UDP, "vip", 53, endpoints...)}}
	}
	expect := func(when string, outcome lab.Outcome, by string) {
		t.Helper()
		// A refusal comes with the next packet at the latest.
		answer, err := sender.Ask(2 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Outcome != outcome || answer.By != by {
			t.Errorf("%s: %v, want %v %s", when, answer, outcome, by)
		}
	}
	first, second := l.Pods[0].AddrPort(f, 5353), l.Pods[1].AddrPort(f, 5353)
	translate(t, l.Node, vip, first)
	follower.commit(sync.Committed{Full: true, Set: committed(first).Set}, 1)
	expect("with one endpoint", lab.Answered, "pod-1")
	translate(t, l.Node, vip, second)
	expect("with another, and the old flow", lab.Answered, "pod-1")
	if n := follower.commit(committed(second), 1); n != 1 {
		t.Errorf("deleted %d flows, want 1", n)
	}
	expect("with another", lab.Answered, "pod-2")
	translate(t, l.Node, vip, netip.AddrPort{})
	expect("without endpoints, and the old flow", lab.Answered, "pod-2")
	follower.commit(committed(), 1)
	expect("without endpoints", lab.Refused, "")
	translate(t, l.Node, vip, first)
	expect("with an endpoint again", lab.Answered, "pod-1")
	follower.commit(sync.Committed{Gone: []model.Match{committed().Set[0].Match}}, 1)
	if left := x.flows(); len(left) > 0 {
		t.Errorf("after the Service was deleted, there are %v", left)
	}
}
