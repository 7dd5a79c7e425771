package explain

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/predict"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
)

// An expression is a match of nft that no rule of kube-vmap has.
type expression struct {
	match, before string // with a statement before it
	undecided     bool   // only the kernel knows whether it matches
}

func expressions(f model.Family) []expression {
	ip := nft.FamilyName(f)
	port := daemon.TargetPort
	mark := fmt.Sprintf("udp dport %d meta mark set %[1]d; ", port)
	hopLimit := [...]string{"ip ttl", "ip6 hoplimit"}[f]
	absent := [...]string{"ip option lsrr", "exthdr frag"}[f]
	return []expression{
		{match: "meta pkttype host"},
		{match: "meta pkttype broadcast"},
		{match: "ct helper \"ftp\""},
		{match: "meta skuid 0"},
		{match: absent + " exists"},
		{match: absent + " missing"},
		{match: "fib daddr type local"},
		{match: "fib saddr oif missing"},
		{match: "meta mark 8000-9000", before: mark},
		{match: "meta mark " + fmt.Sprint(port<<4), before: mark + "meta mark set meta mark << 4; ", undecided: true},
		{match: "th dport . meta l4proto vmap { " + fmt.Sprintf("%d-%d . tcp : continue, %d . udp : continue", port, port+1, port) + " }"},
		{match: "numgen random mod 1 0"},
		{match: "numgen random mod 4 < 3"},
		{match: "jhash " + ip + " daddr mod 3 seed 0x5 1"},
		{match: "symhash mod 1 0"},
		{match: "tcp option maxseg exists", undecided: true},
		{match: "@th,160,8 != 255", undecided: true},
		{match: "limit rate 5/second", undecided: true},
		{match: "quota over 1 mbytes", undecided: true},
		{match: "ct count over 3", undecided: true},
		{match: "meta length > 20"},
		{match: "meta length > 1400", undecided: true},
		{match: hopLimit + " > 1"},
		{match: hopLimit + " 64", undecided: true},
		{match: "udp length > 7"},
		{match: "udp length 9-20", undecided: true},
		{match: [...]string{"ip frag-off & 0x1fff != 0", "frag frag-off != 0"}[f]},
		{match: "fib daddr . iif type local"},
		{match: "fib saddr . iif type local"},
		{match: "add @metered { " + ip + " saddr limit rate 5/second }", undecided: true},
		{match: ip + " saddr @limited", before: "add @limited { " + ip + " saddr }; "},
	}
}

// TestExplainAgreesWithExpressionsOfNft refuses what each expression matches.
func TestExplainAgreesWithExpressionsOfNft(t *testing.T) {
	r := newBareRig(t)
	random := rand.New(rand.NewPCG(16, 7))
	verdicts := map[string]int{}
	for _, f := range model.Families {
		for _, e := range expressions(f) {
			r.nft(fmt.Sprintf(`table %s other {
				set metered { type %[2]s; flags dynamic; }
				set limited { type %[2]s; flags dynamic; }
				chain forward { type filter hook forward priority 0; ct state established,related accept; %[3]s %[4]s reject; }
			}`, nft.FamilyName(f), [...]string{"ipv4_addr", "ipv6_addr"}[f], e.before, e.match))
			if doubts := r.sendsDirect(random, f, 8, verdicts); len(doubts) > 0 != e.undecided {
				t.Errorf("not certain: %q, want some: %t", doubts, e.undecided)
			}
			if t.Failed() {
				t.Fatal(f, e)
			}
			r.nft("delete table " + nft.FamilyName(f) + " other")
		}
	}
	t.Log(verdicts)
}

// TestExplainAgreesWithTranslationsToRanges has translations to ranges of ports, of which the
// kernel selects the first.
func TestExplainAgreesWithTranslationsToRanges(t *testing.T) {
	r := newBareRig(t)
	random := rand.New(rand.NewPCG(16, 8))
	verdicts := map[string]int{}
	port := daemon.TargetPort
	for _, f := range model.Families {
		first := r.servers[0].Addr(f)
		for _, statement := range []string{
			fmt.Sprintf("udp dport %d redirect to :%d-%d", port, port+1, port+2),
			fmt.Sprintf("tcp dport %d dnat to %s:%d-%d", port, [...]string{first.String(), "[" + first.String() + "]"}[f], port+1, port+2),
		} {
			r.nft(fmt.Sprintf("table %s other { chain p { type nat hook prerouting priority -100; %s; }; chain o { type nat hook output priority -100; %[2]s; }; }", nft.FamilyName(f), statement))
			if doubts := r.sendsDirect(random, f, 24, verdicts); len(doubts) > 0 {
				t.Errorf("%s: not certain: %q", statement, doubts)
			}
			if t.Failed() {
				t.Fatal(statement)
			}
			r.nft("delete table " + nft.FamilyName(f) + " other")
		}
	}
	t.Log(verdicts)
	if verdicts[path.VerdictDelivered] < 8 {
		t.Error("too few packets are translated")
	}
}

// TestExplainAgreesWithFibOfLoopback has the check of sources of firewalld. It does not look up
// what comes in by the loopback.
func TestExplainAgreesWithFibOfLoopback(t *testing.T) {
	r := newBareRig(t)
	r.must(r.Node.ServeAll(daemon.TargetPort))
	r.nft("table inet other { chain p { type filter hook prerouting priority -300; fib saddr . iif oif missing drop; }; }")
	var batch []predict.Prediction
	for _, w := range transports() {
		a := r.Node.Addr(w.Family)
		p := simulate.Packet{From: a, FromPort: r.port(), To: netip.AddrPortFrom(a, daemon.TargetPort), Protocol: w.Protocol}
		batch = append(batch, predict.Prediction{Packet: p, Host: r.Node.Host, Result: r.explain(p)})
	}
	c := predict.Comparer{Lab: r.Lab, Serves: func(h *lab.Host, _ uint16) bool { return h == r.Node.Host }}
	for _, err := range c.Wrong(batch) {
		t.Error(err)
	}
}
