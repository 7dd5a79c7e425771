package explain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/predict"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate"
)

// load replaces the tables in the text by its rules.
func (r *rig) load(f model.Family, rules string) {
	r.t.Helper()
	labtest.Run(r.t, r.Node.Host, rules, [...]string{"iptables-nft-restore", "ip6tables-nft-restore"}[f])
}

// TestExplainAgreesWithRandomRulesOfIPTables loads random rules with each match and target,
// and sends packets through them.
func TestExplainAgreesWithRandomRulesOfIPTables(t *testing.T) {
	r := newBareRig(t)
	random := rand.New(rand.NewPCG(3, 15))
	verdicts, certain, all := map[string]int{}, 0, 0
	for range shortened(20) {
		var rules [len(model.Families)]string
		for _, f := range model.Families {
			rules[f] = r.randomRules(random, f)
			r.load(f, rules[f])
		}
		const n = 60
		doubts := r.sends(n, verdicts, func() predict.Prediction { return r.randomDirectPacket(random, model.Families[random.IntN(2)]) })
		all, certain = all+n, certain+n-len(doubts)
		if t.Failed() {
			t.Log(strings.Join(rules[:], "\n"))
			break
		}
	}
	t.Logf("%v, %d of %d certain", verdicts, certain, all)
	if certain < all*9/10 {
		t.Error("too few packets are certain")
	}
}

// TestExplainAgreesWithEachMatchOfIPTables refuses what each match matches.
func TestExplainAgreesWithEachMatchOfIPTables(t *testing.T) {
	r := newBareRig(t)
	random := rand.New(rand.NewPCG(5, 15))
	verdicts, uncertain := map[string]int{}, map[string]bool{}
	for _, f := range model.Families {
		for at, matches := range r.allMatches(random, f) {
			for _, match := range matches {
				r.load(f, refusing(f, at, match))
				if len(r.sendsDirect(random, f, 10, verdicts)) > 0 {
					uncertain[match] = true
				}
				if t.Failed() {
					t.Fatal(at, match)
				}
			}
		}
	}
	t.Log(verdicts)
	if got := slices.Sorted(maps.Keys(uncertain)); !slices.Equal(got, undecidedMatches) {
		t.Errorf("not certain: %q, want %q", got, undecidedMatches)
	}
}

// undecidedMatches are those of which only the kernel knows whether they match.
var undecidedMatches = []string{
	`-m hashlimit --hashlimit-upto 5/sec --hashlimit-mode srcip --hashlimit-name h`, `-m limit --limit 5/sec`,
	`-m mac --mac-source 02:00:00:00:00:01`, `-m physdev --physdev-is-in`, `-m recent --name some --rcheck`,
	`-m socket`, `-m u32 --u32 "0&0xF0=0x30"`,
	`-p sctp -m sctp --chunk-types all INIT,DATA`, `-p sctp -m sctp --chunk-types any INIT,DATA`,
	`-p sctp -m sctp --chunk-types only INIT`,
}

// allMatches returns all matches by the chain they are tried in.
func (r *rig) allMatches(random *rand.Rand, f model.Family) map[hooked][]string {
	out := map[hooked][]string{}
	add := func(h hooked, matches []string) {
		for _, m := range matches {
			if !slices.Contains(out[h], m) {
				out[h] = append(out[h], m)
			}
		}
	}
	for range 4 {
		for _, h := range []hooked{{"mangle", "PREROUTING"}, {"filter", "FORWARD"}, {"filter", "OUTPUT"}} {
			add(h, r.hookMatches(h))
		}
		add(hooked{"mangle", "PREROUTING"}, append(r.plainMatches(random, f), r.portMatches(random)...))
	}
	return out
}

// refusing returns rules that refuse the first packets of connections that a match matches,
// in a chain. Chains of mangle mark them, and filter refuses them later.
func refusing(f model.Family, h hooked, match string) string {
	rules := map[string]string{}
	if h.table == "filter" {
		rules["filter"] = fmt.Sprintf("-A %s %s -j REJECT\n", h.chain, match)
	} else {
		rules["mangle"] = fmt.Sprintf("-A PREROUTING %s -j MARK --set-xmark 0x8/0x8\n", match)
		rules["filter"] = "-A FORWARD -m mark --mark 0x8/0x8 -j REJECT\n"
	}
	return "*mangle\n" + accepting(f, "PREROUTING") + rules["mangle"] + "COMMIT\n*filter\n" + accepting(f, "FORWARD") + accepting(f, "OUTPUT") + rules["filter"] + "COMMIT\n"
}

// accepting returns the rules at the start of a chain, which accept replies and neighbour
// discovery: if the kernel had to ask again for the address of a host meanwhile, and the
// tested rule dropped that, packets would be lost for another reason.
func accepting(f model.Family, chain string) string {
	out := "-A " + chain + " -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n"
	if f == model.IPv6 {
		out += "-A " + chain + " -p ipv6-icmp -j ACCEPT\n"
	}
	return out
}

// sends sends packets through the rules, and adds up what explain says of them. What it is
// certain of must happen; for each other packet it returns the doubts.
func (r *rig) sends(n int, verdicts map[string]int, packet func() predict.Prediction) (doubts []string) {
	r.t.Helper()
	var certain []predict.Prediction
	for range n {
		a := packet()
		a.Result = r.explain(a.Packet)
		verdicts[a.Result.Outcomes[0].Verdict]++
		if len(a.Result.Doubts) > 0 {
			doubts = append(doubts, fmt.Sprintf("%s: %q", a.Packet, a.Result.Doubts))
		} else {
			certain = append(certain, a)
		}
	}
	r.compare(certain)
	return doubts
}

func (r *rig) sendsDirect(random *rand.Rand, f model.Family, n int, verdicts map[string]int) (doubts []string) {
	r.t.Helper()
	return r.sends(n, verdicts, func() predict.Prediction { return r.randomDirectPacket(random, f) })
}

func (r *rig) randomDirectPacket(random *rand.Rand, f model.Family) predict.Prediction {
	hosts := append([]*lab.Host{r.Node.Host, r.Outside}, r.servers[:3]...)
	a := predict.Prediction{Packet: simulate.Packet{Protocol: model.Protocols[random.IntN(3)], FromPort: r.port()}}
	for a.Host == nil || a.From == a.To.Addr() {
		a.Host = pick(random, hosts)
		a.From = a.Host.Addr(f)
		to := pick(random, r.servers[:3]).Addr(f)
		switch {
		case random.IntN(20) == 0:
			to = lab.ServiceRanges[f].Addr().Next()
		case a.Host != r.Outside: // which has another route to them
			to = pick(random, r.servers).Addr(f)
		}
		a.To = netip.AddrPortFrom(to, daemon.TargetPort+uint16(random.IntN(ports)))
	}
	return a
}

// A hooked is a chain of a table of iptables, with what its rules may use.
type hooked struct{ table, chain string }

var builtin = []hooked{
	{"raw", "PREROUTING"},
	{"raw", "OUTPUT"},
	{"mangle", "PREROUTING"},
	{"mangle", "INPUT"},
	{"mangle", "FORWARD"},
	{"mangle", "OUTPUT"},
	{"mangle", "POSTROUTING"},
	{"nat", "PREROUTING"},
	{"nat", "OUTPUT"},
	{"nat", "POSTROUTING"},
	{"filter", "INPUT"},
	{"filter", "FORWARD"},
	{"filter", "OUTPUT"},
}

// randomRules returns rules for all tables. Packets behind the first of a connection pass
// without them, because explain is about the first.
func (r *rig) randomRules(random *rand.Rand, f model.Family) string {
	var b strings.Builder
	for _, table := range []string{"raw", "mangle", "nat", "filter"} {
		fmt.Fprintf(&b, "*%s\n:SUB-%s - [0:0]\n", table, table)
		for _, h := range builtin {
			if h.table != table {
				continue
			}
			if table != "nat" {
				b.WriteString(accepting(f, h.chain))
			}
			for range random.IntN(3) {
				fmt.Fprintf(&b, "-A %s %s\n", h.chain, r.randomRule(random, f, h))
			}
		}
		for range 2 {
			fmt.Fprintf(&b, "-A SUB-%s %s -j RETURN\n", table, pick(random, r.plainMatches(random, f)))
		}
		fmt.Fprintf(&b, "-A SUB-%s %s -j %s\n", table, pick(random, r.plainMatches(random, f)), pick(random, []string{"MARK --set-xmark 0x3/0x3", "ACCEPT"}))
		b.WriteString("COMMIT\n")
	}
	return b.String()
}

func pick[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

func (r *rig) randomRule(random *rand.Rand, f model.Family, h hooked) string {
	parts := []string{pick(random, r.plainMatches(random, f))}
	if random.IntN(2) == 0 {
		parts = append(parts, pick(random, r.hookMatches(h)))
	}
	if !strings.Contains(parts[0], "-p ") && random.IntN(2) == 0 {
		parts = append(parts, pick(random, r.portMatches(random)))
	}
	target := pick(random, r.targets(random, f, h))
	if needs, rest, ok := strings.Cut(target, "|"); ok {
		parts, target = []string{needs}, rest
	}
	return strings.Join(parts, " ") + " -j " + target
}
