package matrix

import (
	"fmt"
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
	"kube-vmap/nft/foreign/simulate/path"
)

// checkExplained asks `kube-vmap explain` about cells.
func (s *scene) checkExplained(t *testing.T, cells []cell) {
	t.Helper()
	if kubeProxy != "" {
		return // explain reads only the tables of kube-vmap
	}
	w, err := livenode.Open(livenode.Config{NetNS: s.Node.FD()})
	s.must(err)
	defer func() { _ = w.Close() }()
	wrong := 0
	for _, c := range cells {
		if err := s.explains(w, c); err != nil {
			t.Errorf("%s: %v", c, err)
			if wrong++; wrong == mostErrors {
				t.FailNow() // the others probably fail, too
			}
		}
	}
}

// explains compares the result of explain for a cell with the expected one.
func (s *scene) explains(w *livenode.Node, c cell) error {
	p := simulate.Packet{From: s.asksFrom(c), To: c.to, Protocol: c.transport.Protocol}
	if c.from.FreshPort()%50 != 0 { // without a port, explain reads all connections from the kernel
		p.FromPort = 10000
	}
	got, err := w.Run(p, "")
	if err != nil {
		return err
	}
	if len(got.Faults)+len(got.Doubts) > 0 || got.Service == "" {
		return fmt.Errorf("explain finds service %q, faults %q, doubts %q", got.Service, got.Faults, got.Doubts)
	}
	var by []string
	for _, o := range got.Outcomes {
		if o.Verdict != c.want.verdict() {
			return fmt.Errorf("explain returns %s %s, want %s", o.Verdict, o.How, c.want.verdict())
		}
		for _, e := range o.Endpoints {
			name := s.serverAt(e.AddrPort())
			by = append(by, name)
			// node-2 reaches the host outside by way of this node, which this node cannot know.
			known := !e.Reply.Bypasses || c.from.Host != s.Outside || !strings.HasPrefix(name, "remote")
			if known && e.Reply.Verdict != path.VerdictDelivered {
				return fmt.Errorf("explain returns %+v for the reply of %s, want that it reaches the client", e.Reply, name)
			}
			answer := lab.Answer{By: name, Local: netip.AddrPortFrom(p.From, p.FromPort), Seen: netip.AddrPortFrom(e.Sees, p.FromPort)}
			if _, err := s.sourceIs(c, answer); err != nil {
				return fmt.Errorf("explain: %w", err)
			}
		}
	}
	slices.Sort(by)
	want := slices.Sorted(slices.Values(c.want.by))
	hashed := len(by) == 1 && (c.want.spread == same || c.want.spread == byPort)
	steered := len(by) > 0 && c.want.spread == anyOf // closed connections on the fast path may count
	if some := (hashed || steered) && containsAll(want, by); !some && !slices.Equal(by, want) {
		return fmt.Errorf("explain returns endpoints %q, want %q", by, want)
	}
	return nil
}

func containsAll(list, some []string) bool {
	return !slices.ContainsFunc(some, func(name string) bool { return !slices.Contains(list, name) })
}

// verdict is what explain must say.
func (r result) verdict() string {
	switch {
	case r.refused:
		return path.VerdictRefused
	case len(r.by) == 0:
		return path.VerdictDropped
	}
	return path.VerdictDelivered
}

// asksFrom is the address that the client asks from, which the node chooses for
// itself: to one of its own addresses it is that, to others that of its link there.
func (s *scene) asksFrom(c cell) netip.Addr {
	switch f := c.transport.Family; {
	case c.from.from[f].IsValid():
		return c.from.from[f]
	case c.from.Host == s.Node.Host && slices.Contains(s.nodeAddrs, c.to.Addr()):
		return c.to.Addr()
	default:
		return c.from.Addr(f)
	}
}

// serverAt is the name of the host that serves at an address.
func (s *scene) serverAt(a netip.AddrPort) string {
	for _, h := range s.Hosts() {
		if h.AddrPort(model.FamilyOf(a.Addr()), daemon.TargetPort) == a {
			return h.Name
		}
	}
	return a.String()
}

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
