package explain

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

const (
	packets = 10_000
	// rounds are enough for clients to come again while they have an affinity.
	rounds   = 10
	services = 40
	crowd    = 200
)

// A prediction is a packet, its sender, and the result of the simulation.
type prediction struct {
	simulate.Packet
	host   *lab.Host
	result simulate.Result
}

// TestExplainAgreesWithRandomPackets sends packets from random hosts to random Services, and
// to addresses and ports that do not exist.
func TestExplainAgreesWithRandomPackets(t *testing.T) {
	r := newRig(t)
	random := rand.New(rand.NewPCG(6, 9125))
	var all []daemon.Service
	for n := range services {
		all = append(all, r.randomService(random, n+1))
	}
	r.folder.Put("services", all...)
	daemon.Start(t, r.Node, r.folder)
	var verdicts [simulate.VerdictUnknown + 1]int
	var explaining, sending time.Duration
	for range rounds {
		batch := make([]prediction, packets/rounds)
		start := time.Now()
		for i := range batch {
			batch[i] = r.randomPacket(random, all)
			batch[i].result = r.explain(batch[i].Packet)
			verdicts[batch[i].result.Outcomes[0].Verdict]++
		}
		explaining += time.Since(start)
		start = time.Now()
		r.compare(batch)
		sending += time.Since(start)
	}
	t.Logf("%d packets explained in %s, sent in %s", packets, explaining.Round(time.Millisecond), sending.Round(time.Millisecond))
	for _, v := range []simulate.Verdict{simulate.VerdictNotService, simulate.VerdictDelivered, simulate.VerdictRefused, simulate.VerdictDropped} {
		t.Logf("%s: %d", v, verdicts[v])
		if verdicts[v] < packets/100 {
			t.Errorf("only %d of %d packets are %s", verdicts[v], packets, v)
		}
	}
}

// some returns random elements of a list.
func some[T any](random *rand.Rand, list []T) (out []T) {
	for _, v := range list {
		if random.IntN(2) == 0 {
			out = append(out, v)
		}
	}
	return out
}

func (r *rig) randomService(random *rand.Rand, n int) daemon.Service {
	s := daemon.Service{
		Name: fmt.Sprintf("random-%d", n), Number: n,
		Kinds:     some(random, daemon.Kinds[1:]),
		Ports:     1 + random.IntN(2),
		Endpoints: some(random, r.servers), Times: 1 + random.IntN(2),
		LocalInside: random.IntN(4) == 0,
	}
	s.LocalOutside = len(s.Kinds) > 0 && random.IntN(2) == 0
	if random.IntN(2) == 0 {
		for range s.Endpoints {
			s.Weights = append(s.Weights, []int{0, 1, 2, 5}[random.IntN(4)])
		}
	}
	switch random.IntN(6) { // not lc, whose shares change between explanation and packet
	case 0, 1:
		s.Affinity = []time.Duration{10 * time.Minute, time.Hour, 3 * time.Hour}[random.IntN(3)]
	case 2:
		s.Scheduler = "sh"
	case 3:
		s.Scheduler = "mh"
	case 4:
		s.Scheduler = "rr"
	}
	if s.Has(model.KindLoadBalancerIP) && random.IntN(2) == 0 {
		s.Sources = []string{"10.244.0.0/16", "198.18.0.0/26", "fd00:10:244::/48", "2001:db8:c::/122"}
	}
	return s
}

func (r *rig) randomPacket(random *rand.Rand, all []daemon.Service) prediction {
	f := model.Families[random.IntN(len(model.Families))]
	a := prediction{Packet: simulate.Packet{Protocol: model.Protocols[random.IntN(len(model.Protocols))], FromPort: r.port()}}
	a.To = r.randomTarget(random, f, all[random.IntN(len(all))])
	switch random.IntN(4) {
	case 0:
		a.host, a.From = r.Outside, daemon.ClientAddr(f, random.IntN(crowd))
	case 1:
		a.host, a.From = r.Node.Host, r.Node.Addr(f)
	default:
		a.host = r.Pods[random.IntN(len(r.Pods))].Host
		a.From = a.host.Addr(f)
	}
	return a
}

// randomTarget returns an address and port, mostly of the Service.
func (r *rig) randomTarget(random *rand.Rand, f model.Family, s daemon.Service) netip.AddrPort {
	kind := model.KindClusterIP
	if n := random.IntN(len(s.Kinds) + 1); n > 0 {
		kind = s.Kinds[n-1]
	}
	to := s.AddrPort(r.Node, f, kind, random.IntN(max(1, s.Ports)))
	switch random.IntN(12) {
	case 0: // a port that it does not have
		return netip.AddrPortFrom(to.Addr(), to.Port()+17)
	case 1: // an unused address
		s.Number = services + 1 + random.IntN(100)
		return s.AddrPort(r.Node, f, model.KindClusterIP, 0)
	case 2: // an endpoint itself, or a pod that serves nothing
		h := append(slices.Clone(r.servers), r.Pods[3].Host)[random.IntN(len(r.servers)+1)]
		return h.AddrPort(f, daemon.TargetPort)
	}
	return to
}

// compare sends the packets. Those that are dropped are last, because they take their timeout
// in any case.
func (r *rig) compare(batch []prediction) {
	r.t.Helper()
	quiet := func(a prediction) bool { return a.result.Outcomes[0].Verdict == simulate.VerdictDropped }
	wrong := r.send(slices.DeleteFunc(slices.Clone(batch), quiet), 16)
	wrong = append(wrong, r.send(slices.DeleteFunc(batch, func(a prediction) bool { return !quiet(a) }), 128)...)
	for i, err := range wrong {
		if i == 10 {
			r.t.Fatalf("and %d more", len(wrong)-i)
		}
		r.t.Error(err)
	}
}

// send sends packets, some at a time, and returns errors for wrong predictions.
func (r *rig) send(batch []prediction, atATime int) []error {
	errs := make([]error, len(batch))
	var group errgroup.Group
	group.SetLimit(atATime)
	for i, a := range batch {
		group.Go(func() error { errs[i] = r.check(a); return nil })
	}
	_ = group.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// check sends a packet and compares the answer with the prediction.
func (r *rig) check(a prediction) error {
	wait := answer
	if v := a.result.Outcomes[0].Verdict; v == simulate.VerdictDropped || v == simulate.VerdictNotService {
		wait = silence
	}
	got, err := a.host.AskFrom(a.Protocol, netip.AddrPortFrom(a.From, a.FromPort), a.To, wait)
	if err != nil {
		return err
	}
	for _, o := range a.result.Outcomes {
		if r.matches(o, a, got) {
			return nil
		}
	}
	return fmt.Errorf("%s by %s: %s, predicted %+v", a.Packet, a.host, got, a.result.Outcomes)
}

// matches reports whether an outcome agrees with the answer.
func (r *rig) matches(o simulate.Outcome, a prediction, got lab.Answer) bool {
	switch o.Verdict {
	case simulate.VerdictRefused:
		return got.Outcome == lab.Refused
	case simulate.VerdictDropped:
		return got.Outcome == lab.TimedOut
	case simulate.VerdictNotService:
		if got.Outcome != lab.Answered {
			return r.server(a.To.Addr()) == a.To.Addr().String() || a.To.Addr() == r.Pods[3].Addr(a.Family()) ||
				a.To.Addr() == r.Node.Addr(a.Family()) || got.Outcome == lab.TimedOut
		}
		return got.By == r.server(a.To.Addr())
	case simulate.VerdictDelivered:
		// The source port may differ: another masqueraded connection may use it.
		anyPort := o.Masquerade || a.host == r.Node.Host
		return slices.ContainsFunc(o.Endpoints, func(e simulate.Endpoint) bool {
			// A rule of iptables redirects to the node, which does not serve all ports, or
			// returns the packet to its sender, which does not take it.
			if (e.Local || e.Address.Addr() == e.Source) && got.Outcome != lab.Answered {
				return true
			}
			return e.Probability > 0 && got.Outcome == lab.Answered && r.server(e.Address.Addr()) == got.By &&
				e.Source == got.Seen.Addr() && (anyPort || e.Source != a.From || got.Seen == got.Local)
		})
	}
	return false
}
