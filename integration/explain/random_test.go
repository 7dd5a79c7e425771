package explain

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/predict"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

const (
	// rounds are enough for clients to come again while they have an affinity.
	rounds   = 10
	services = 40
	crowd    = 200
)

// TestExplainAgreesWithRandomPackets sends packets from random hosts to random Services, and
// to addresses and ports that do not exist.
func TestExplainAgreesWithRandomPackets(t *testing.T) {
	r := newRig(t)
	packets := shortened(8_000)
	random := rand.New(rand.NewPCG(6, 9125))
	all := r.randomServices(random)
	r.serve(all...)
	r.nft(r.replyFilters())
	lost := 0
	verdicts := map[string]int{}
	for range rounds {
		batch := make([]predict.Prediction, packets/rounds)
		for i := range batch {
			batch[i] = r.randomPacket(random, all)
			batch[i].Result = r.explain(batch[i].Packet)
			verdicts[batch[i].Result.Outcomes[0].Verdict]++
			if batch[i].LosesReply() {
				lost++
			}
		}
		r.compare(batch)
	}
	if t.Logf("reply lost: %d", lost); lost < packets/100 {
		t.Errorf("only %d of %d packets arrive without a reply", lost, packets)
	}
	for _, v := range []string{path.VerdictNotService, path.VerdictDelivered, path.VerdictRefused, path.VerdictDropped} {
		t.Logf("%s: %d", v, verdicts[v])
		if verdicts[v] < packets/100 {
			t.Errorf("only %d of %d packets are %s", verdicts[v], packets, v)
		}
	}
}

// replyFilters returns a table that stops some replies, at each hook that they pass, and one
// that is not tracked.
func (r *rig) replyFilters() string {
	pods := func(n ...int) string { // of both families
		text := func(f model.Family, side string) string {
			var list []string
			for _, n := range n {
				list = append(list, r.servers[n].Addr(f).String())
			}
			return fmt.Sprintf("%s %s { %s }", [...]string{model.IPv4: "ip", model.IPv6: "ip6"}[f], side, strings.Join(list, ", "))
		}
		return text(model.IPv4, "%[1]s") + "%[2]s; " + text(model.IPv6, "%[1]s") + "%[2]s; "
	}
	return "table inet guard { " +
		"chain raw { type filter hook prerouting priority raw; " + fmt.Sprintf(pods(0), "saddr", " th sport 8081 drop") +
		fmt.Sprintf(pods(1), "saddr", " udp sport 8082 notrack") + "}; " +
		"chain mangle { type filter hook prerouting priority mangle; " + fmt.Sprintf(pods(3), "saddr", " ct direction reply ct status dnat sctp sport 8080 drop") + "}; " +
		"chain forward { type filter hook forward priority filter; " + fmt.Sprintf(pods(4), "saddr", " ct state established tcp sport 8080 drop") +
		fmt.Sprintf(pods(2), "daddr", " ct direction reply udp sport 8080 reject") + "}; " +
		"chain input { type filter hook input priority filter; ct direction reply th sport 8082 drop; }; " +
		"chain output { type filter hook output priority filter; ct direction reply meta l4proto udp ct mark 0 th sport 30000-30100 drop; }; " +
		"chain behind { type filter hook postrouting priority 110; " + fmt.Sprintf(pods(1), "daddr", " ct direction reply ct status dnat tcp sport 80 drop") + "}; }"
}

// randomServices returns Services without scheduler lc, whose shares change between explanation and
// packet.
func (r *rig) randomServices(random *rand.Rand) (all []daemon.Service) {
	generate := daemon.Random{
		Rand: random, Servers: r.servers, Ports: 2, Times: 2, Schedulers: []string{"", "", "sh", "mh", "rr"}, Weights: []int{0, 1, 2, 5},
		Affinities: []time.Duration{0, 0, 0, 10 * time.Minute, time.Hour, 3 * time.Hour},
		Sources:    [][]string{{"10.244.0.0/16", "198.18.0.0/26", "fd00:10:244::/48", "2001:db8:c::/122"}},
	}
	for n := range services {
		all = append(all, generate.Service(fmt.Sprintf("random-%d", n+1), n+1))
	}
	return all
}

func (r *rig) randomPacket(random *rand.Rand, all []daemon.Service) predict.Prediction {
	f := model.Families[random.IntN(len(model.Families))]
	a := predict.Prediction{Packet: simulate.Packet{Protocol: model.Protocols[random.IntN(len(model.Protocols))], FromPort: r.port()}}
	a.To = r.randomTarget(random, f, all[random.IntN(len(all))])
	switch random.IntN(4) {
	case 0:
		a.Host, a.From = r.Outside, daemon.ClientAddr(f, random.IntN(crowd))
	case 1:
		a.Host, a.From = r.Node.Host, r.Node.Addr(f)
	default:
		a.Host = r.Pods[random.IntN(len(r.Pods))].Host
		a.From = a.Host.Addr(f)
	}
	return a
}

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

func (r *rig) serves(h *lab.Host, port uint16) bool {
	return slices.Contains(r.servers, h) && port >= daemon.TargetPort && port < daemon.TargetPort+ports
}

func (r *rig) compare(batch []predict.Prediction) {
	r.t.Helper()
	c := predict.Comparer{Lab: r.Lab, Serves: r.serves}
	wrong := c.Wrong(batch)
	for i, err := range wrong {
		if i == 10 {
			r.t.Fatalf("and %d more", len(wrong)-i)
		}
		r.t.Error(err)
	}
}
