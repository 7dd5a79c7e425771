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
	// rounds are so many that clients come again who are remembered.
	rounds   = 10
	services = 40
	crowd    = 200
)

// asking is a packet, who sends it, and what is said about it.
type asking struct {
	simulate.Packet
	host *lab.Host
	said simulate.Result
}

// TestExplainAgreesWithRandomPackets makes Services of every sort, and has anybody ask
// for what there is, and for what there is not.
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
		batch := make([]asking, packets/rounds)
		start := time.Now()
		for i := range batch {
			batch[i] = r.randomPacket(random, all)
			batch[i].said = r.explain(batch[i].Packet)
			verdicts[batch[i].said.Outcomes[0].Verdict]++
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

// some are some of a list.
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
	switch random.IntN(6) {
	case 0, 1:
		s.Affinity = 3 * time.Hour
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

func (r *rig) randomPacket(random *rand.Rand, all []daemon.Service) asking {
	f := model.Families[random.IntN(len(model.Families))]
	a := asking{Packet: simulate.Packet{Protocol: model.Protocols[random.IntN(len(model.Protocols))], FromPort: r.port()}}
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

// randomTarget is mostly where the Service is found.
func (r *rig) randomTarget(random *rand.Rand, f model.Family, s daemon.Service) netip.AddrPort {
	kind := model.KindClusterIP
	if n := random.IntN(len(s.Kinds) + 1); n > 0 {
		kind = s.Kinds[n-1]
	}
	to := s.AddrPort(r.Node, f, kind, random.IntN(max(1, s.Ports)))
	switch random.IntN(12) {
	case 0: // a port that it does not have
		return netip.AddrPortFrom(to.Addr(), to.Port()+17)
	case 1: // an address that nobody has
		s.Number = services + 1 + random.IntN(100)
		return s.AddrPort(r.Node, f, model.KindClusterIP, 0)
	case 2: // an endpoint itself, or who serves nothing
		h := append(slices.Clone(r.servers), r.Pods[3].Host)[random.IntN(len(r.servers)+1)]
		return h.AddrPort(f, daemon.TargetPort)
	}
	return to
}

// compare sends the packets, what is dropped after the others: that takes its time
// whatever happens, and nothing else must slow it down.
func (r *rig) compare(batch []asking) {
	r.t.Helper()
	quiet := func(a asking) bool { return a.said.Outcomes[0].Verdict == simulate.VerdictDropped }
	wrong := r.send(slices.DeleteFunc(slices.Clone(batch), quiet), 16)
	wrong = append(wrong, r.send(slices.DeleteFunc(batch, func(a asking) bool { return !quiet(a) }), 128)...)
	for i, err := range wrong {
		if i == 10 {
			r.t.Fatalf("and %d more", len(wrong)-i)
		}
		r.t.Error(err)
	}
}

// send sends packets, some at a time, and returns what is wrong.
func (r *rig) send(batch []asking, atATime int) []error {
	errs := make([]error, len(batch))
	var group errgroup.Group
	group.SetLimit(atATime)
	for i, a := range batch {
		group.Go(func() error { errs[i] = r.agrees(a); return nil })
	}
	_ = group.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// agrees sends a packet and compares what becomes of it with what was said.
func (r *rig) agrees(a asking) error {
	wait := answer
	if v := a.said.Outcomes[0].Verdict; v == simulate.VerdictDropped || v == simulate.VerdictNotService {
		wait = silence
	}
	got, err := a.host.AskFrom(a.Protocol, netip.AddrPortFrom(a.From, a.FromPort), a.To, wait)
	if err != nil {
		return err
	}
	for _, o := range a.said.Outcomes {
		if r.isSo(o, a, got) {
			return nil
		}
	}
	return fmt.Errorf("%s by %s: %s, said was %+v", a.Packet, a.host, got, a.said.Outcomes)
}

// isSo reports whether an outcome is what came of the packet.
func (r *rig) isSo(o simulate.Outcome, a asking, got lab.Answer) bool {
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
		// The node's own port may be taken at the endpoint, by what it masquerades.
		anyPort := o.Masquerade || a.host == r.Node.Host
		return slices.ContainsFunc(o.Endpoints, func(e simulate.Endpoint) bool {
			return e.Probability > 0 && got.Outcome == lab.Answered && r.server(e.Address.Addr()) == got.By &&
				e.Source == got.Seen.Addr() && (anyPort || got.Seen == got.Local)
		})
	}
	return false
}
