package matrix

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/predict"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
)

const (
	// rounds are enough for clients to come again while they have an affinity.
	rounds = 5
)

// explainsRandomPackets sends random packets, and checks that explain predicts what happens
// to them, and that it is certain of all that are sent to a Service, but where the order of two
// programs' chains decides, which kernels without nfnetlink_hook do not tell. Most are about
// the cells.
func (s *scene) explainsRandomPackets(t *testing.T, cells []cell) {
	t.Helper()
	w, err := livenode.Open(livenode.Config{NetNS: s.Node.FD()})
	s.must(err)
	defer func() { s.must(w.Close()) }()
	random := rand.New(rand.NewPCG(16, 2))
	c := predict.Comparer{Lab: s.Lab, Serves: func(h *lab.Host, port uint16) bool {
		return h != s.Node.Host && h != s.Outside && h != s.Pods[3].Host && port == daemon.TargetPort
	}}
	verdicts := map[string]int{}
	var wrong []error
	for range rounds {
		batch := make([]predict.Prediction, packetsPerRound())
		for i := range batch {
			p, toService := s.randomPacket(random, cells)
			p.Result, err = w.Run(p.Packet, "")
			s.must(err)
			if len(p.Result.NotFollowed) > 0 { // of iptables-legacy
				return
			}
			verdicts[p.Result.Outcomes[0].Verdict]++
			if toService && slices.ContainsFunc(p.Result.Doubts, func(d simulate.Doubt) bool {
				return !strings.Contains(d.Why, "have the same priority at hook")
			}) {
				t.Fatalf("%s: not certain: %q", p.Packet, p.Result.Doubts)
			}
			batch[i] = p
		}
		wrong = append(wrong, c.Wrong(batch)...)
	}
	for _, err := range wrong[:min(len(wrong), mostErrors)] {
		t.Error(err)
	}
	t.Logf("%d wrong: %v", len(wrong), verdicts)
}

// packetsPerRound is how many random packets are sent beside each program in a round.
func packetsPerRound() int {
	if testing.Short() {
		return 20
	}
	return 2000
}

func (s *scene) randomPacket(random *rand.Rand, cells []cell) (p predict.Prediction, toService bool) {
	c := cells[random.IntN(len(cells))]
	f := c.transport.Family
	client := []*client{s.pod, s.pod, s.itself, s.node, s.nodeOther, s.outside}[random.IntN(6)]
	c.from, toService = client, true
	switch random.IntN(12) {
	case 0: // a port that it does not have
		c.to = netip.AddrPortFrom(c.to.Addr(), c.to.Port()+17)
	case 1: // an unused address
		c.to = clusterIP.at(f, 150+random.IntN(50))
	case 2, 3: // a pod itself
		hosts := slices.DeleteFunc(s.Hosts(), func(h *lab.Host) bool { return h == client.Host || h.Name == "node-2" })
		if !slices.Contains(s.Hosts(), client.Host) { // on a bridge without the other pods
			break
		}
		if client == s.outside { // which has another route to the pods of node-2
			hosts = []*lab.Host{s.Pods[0].Host, s.Pods[3].Host, s.Node.Host}
		}
		c.to, toService = hosts[random.IntN(len(hosts))].AddrPort(f, daemon.TargetPort), false
	}
	p.Packet = simulate.Packet{Protocol: model.Protocols[random.IntN(3)], From: s.asksFrom(c), FromPort: client.FreshPort(), To: c.to}
	p.Host = client.Host
	return p, toService
}
