package ruleset

import (
	"net/netip"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// Ports of the Services in the following test: of an endpoint that answers, and of one that drops
// everything.
const answeringPort, silentPort = 80, 81

// TestFirstPacketsSentAgainAreCounted connects from a pod and from the node. A client of TCP sends
// its SYN again after a second; the clients of the lab send an INIT for each question.
func TestFirstPacketsSentAgainAreCounted(t *testing.T) {
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 3})
	if err := l.Pods[0].ServeAll(daemon.TargetPort); err != nil {
		t.Fatal(err)
	}
	silent := l.Pods[1]
	const rules = `table inet silent {
		chain in { type filter hook input priority 0; meta l4proto { tcp, udp, sctp } drop; }
	}`
	labtest.Run(t, silent.Host, rules, "nft", "-f", "-")
	k := labtest.Kernel(t, l.Node.Host)
	if n := unanswered(t, k); n != 0 {
		t.Errorf("without tables, %d packets are counted", n)
	}
	config := nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, PassiveHealth: true}
	services := onPorts(map[uint16]*lab.Pod{answeringPort: l.Pods[0], silentPort: silent})
	_, batch := nft.Adopt(config, nft.Tables{}, nft.Change{Set: services})
	if _, err := k.Apply(batch); err != nil {
		t.Fatal(err)
	}
	for _, client := range []*lab.Host{l.Pods[2].Host, l.Node.Host} {
		for _, w := range daemon.Transports() {
			t.Run(w.String()+" from "+client.Name, func(t *testing.T) {
				before := unanswered(t, k)
				ask(t, client, w, answeringPort, 2, lab.Answered, patience)
				if n := unanswered(t, k) - before; n != 0 {
					t.Errorf("%d packets of an answered connection are counted", n)
				}
				questions, wait := 2, 200*time.Millisecond
				if w.Protocol == model.TCP {
					questions, wait = 1, 1500*time.Millisecond
				}
				ask(t, client, w, silentPort, questions, lab.TimedOut, wait)
				if n := unanswered(t, k) - before; (n > 0) != (w.Protocol != model.UDP) {
					t.Errorf("%d packets of an unanswered connection are counted", n)
				}
			})
		}
	}
}

// onPorts returns a ClusterIP for each transport and port, of one pod.
func onPorts(pods map[uint16]*lab.Pod) (set []model.Frontend) {
	for _, w := range daemon.Transports() {
		for port, pod := range pods {
			m := model.Match{Family: w.Family, Addr: clusterIPs[w.Family], Protocol: w.Protocol, Port: port}
			endpoints := []netip.AddrPort{pod.AddrPort(w.Family, daemon.TargetPort)}
			set = append(set, model.Frontend{Match: m, Pool: &model.Pool{Key: m, Cluster: endpoints}})
		}
	}
	return set
}

// ask asks questions in one connection.
func ask(
	t *testing.T, from *lab.Host, w daemon.Transport, port uint16, questions int, want lab.Outcome,
	wait time.Duration,
) {
	t.Helper()
	flow, err := from.Flow(w.Protocol, netip.AddrPort{}, netip.AddrPortFrom(clusterIPs[w.Family], port))
	if err != nil {
		t.Fatal(err)
	}
	defer flow.Close()
	for range questions {
		if a, err := flow.Ask(wait); err != nil || a.Outcome != want {
			t.Fatalf("port %d: %s, %v, want %s", port, a, err, want)
		}
	}
}

func unanswered(t *testing.T, k *kernel.Kernel) uint64 {
	t.Helper()
	n, err := k.Unanswered()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
