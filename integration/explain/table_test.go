package explain

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/rtnetlink"
	"kube-vmap/nft/simulate"
	"kube-vmap/nft/simulate/path"
	"kube-vmap/sync"
	"kube-vmap/sync/manifests"
)

// flowless knows no connections.
type flowless struct{}

func (flowless) Flows(simulate.Packet) ([]simulate.Flow, error) { return nil, nil }

// TestRulesInMemoryAreThoseOfTheKernel simulates packets with a rule set that no kernel holds,
// and with the same one in the kernel.
func TestRulesInMemoryAreThoseOfTheKernel(t *testing.T) {
	r := newRig(t)
	random := rand.New(rand.NewPCG(15, 1))
	var all []daemon.Service
	for n := range services {
		all = append(all, r.randomService(random, n+1))
	}
	r.folder.Put("services", all...)
	events, problems := manifests.Load(r.folder.Dir(), r.Node.Name)
	r.must(errors.Join(problems...))
	rules, _ := sync.Build(sync.Config{
		NodeName: r.Node.Name, NodePorts: sync.NodePortAddresses{Primary: true},
		Rules: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Pods: lab.PodRanges},
	}, events)
	memory, err := dump.NewMemory(rules)
	r.must(err)
	k, err := kernel.Open(kernel.Config{NetNS: r.Node.FD()})
	r.must(err)
	defer func() { r.must(k.Close()) }()
	_, err = k.Apply(rules.Repair(nft.Tables{}))
	r.must(err)
	held, err := dump.Open(r.Node.FD())
	r.must(err)
	defer func() { r.must(held.Close()) }()
	network, err := rtnetlink.OpenNetwork(r.Node.FD())
	r.must(err)
	defer func() { r.must(network.Close()) }()
	link, err := network.Link(r.Pods[3].Link)
	r.must(err)

	compared := 0
	for _, f := range model.Families {
		for i, frontend := range rules.Installed() {
			if frontend.Match.Family != f || testing.Short() && i%4 > 0 {
				continue
			}
			to := netip.AddrPortFrom(frontend.Match.Addr, frontend.Match.Port)
			if !frontend.Match.Addr.IsValid() {
				to = netip.AddrPortFrom(r.Node.Addr(f), frontend.Match.Port)
			}
			in, from := link, r.Pods[3].Addr(f)
			if compared%2 == 0 {
				in, from = simulate.Link{}, r.Node.Addr(f)
			}
			p := simulate.Packet{From: from, FromPort: 40000, To: to, Protocol: frontend.Match.Protocol}
			var results [2]simulate.Result
			for i, source := range []simulate.Rules{memory, held} {
				s, err := simulate.NewSession(simulate.Sources{Rules: source, Network: network, Connections: flowless{}}, f)
				r.must(err)
				results[i], err = s.Explore(p, in)
				r.must(err)
			}
			ignore := cmpopts.IgnoreFields(path.RuleRef{}, "Rule") // handles
			if diff := cmp.Diff(results[0], results[1], ignore, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
				cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Fatalf("%s: in memory and in the kernel:\n%s", p, diff)
			}
			compared++
			if s := frontend.Pool.Scheduler; s != model.SchedulerRandom && frontend.Pool.Affinity == 0 {
				continue // a session explores all results of a hash
			}
			single, err := simulate.Run(simulate.Sources{Rules: held, Network: network, Connections: flowless{}}, p, in)
			r.must(err)
			if diff := cmp.Diff(shares(single), shares(results[1]), cmpopts.EquateApprox(1e-9, 0)); diff != "" {
				t.Fatalf("%s: explained and in a session:\n%s", p, diff)
			}
		}
	}
	t.Logf("%d packets", compared)
}

// shares returns the probability of each end of a packet.
func shares(r simulate.Result) map[string]float64 {
	out := map[string]float64{}
	for _, o := range r.Outcomes {
		if len(o.Endpoints) == 0 {
			out[o.Verdict.String()+" "+o.How] += o.Probability
		}
		for _, e := range o.Endpoints {
			out[fmt.Sprintf("%s %s from %s", o.Verdict, e.Address, e.Source)] += e.Probability
		}
	}
	return out
}

// TestTableOfAnotherProgramIsReadAsItIsNow reads a table while it changes.
func TestTableOfAnotherProgramIsReadAsItIsNow(t *testing.T) {
	r := newRig(t)
	name := simulate.Table{Family: "ip", Name: "others"}
	read := func() (verdicts []string, dormant bool) {
		t.Helper()
		k, err := dump.Open(r.Node.FD())
		r.must(err)
		defer func() { r.must(k.Close()) }()
		table, err := k.Table(name, func(string) bool { return true }, "skipped")
		if errors.Is(err, fs.ErrNotExist) {
			return []string{"no table"}, false
		}
		r.must(err)
		s, err := simulate.NewSession(simulate.Sources{Rules: table, Network: nowhere{}, Connections: flowless{}}, model.IPv4)
		r.must(err)
		for port := range uint16(3) {
			p := simulate.Packet{From: r.Pods[0].Addr(model.IPv4), FromPort: 1, To: netip.AddrPortFrom(r.Outside.Addr(model.IPv4), port+1), Protocol: model.TCP}
			result, err := s.Explore(p, simulate.Link{Index: 9, Name: "any"})
			r.must(err)
			verdicts = append(verdicts, single(t, result).Verdict.String())
		}
		return verdicts, table.Dormant
	}
	write := func(rule string) string {
		return "table ip others { chain pre { type filter hook prerouting priority 0; " + rule + "; }; chain other { tcp dport { 7, 8 } drop; }; }"
	}
	const passes, drops = "not a Service", "dropped"
	for _, step := range []struct {
		commands string
		want     []string
		dormant  bool
	}{
		{"", []string{"no table"}, false},
		{write("tcp dport vmap { 1 : drop, 2 : accept }"), []string{drops, passes, passes}, false},
		{"add rule ip others other accept", []string{drops, passes, passes}, false},
		{"flush chain ip others pre; add rule ip others pre tcp dport vmap { 2 : drop, 3 : drop }", []string{passes, drops, drops}, false},
		{"delete table ip others; " + write("tcp dport vmap { 3 : drop, 1 : accept }"), []string{passes, passes, drops}, false},
		{"delete table ip others; " + write("tcp dport 1-2 drop"), []string{drops, drops, passes}, false},
		{"flush chain ip others pre; add rule ip others pre tcp dport { 2-3 } drop", []string{passes, drops, drops}, false},
		{`insert rule ip others pre return comment "skipped"`, []string{passes, drops, drops}, true},
		{"add table ip others { flags dormant ; }", []string{passes, drops, drops}, true},
	} {
		if step.commands != "" {
			r.nft(step.commands)
		}
		if got, dormant := read(); !slices.Equal(got, step.want) || dormant != step.dormant {
			t.Errorf("after %q: %v, dormant %t, want %v, %t", step.commands, got, dormant, step.want, step.dormant)
		}
	}
}

// nowhere is a network in which everything is forwarded.
type nowhere struct{}

func (nowhere) Route(simulate.RouteQuery) (simulate.Route, error) {
	return simulate.Route{Out: simulate.Link{Index: 3, Name: "out"}}, nil
}

func (nowhere) AddressType(netip.Addr) (uint32, error) { return 1, nil }

func (nowhere) Source(simulate.Link, netip.Addr) (netip.Addr, error) {
	return netip.Addr{}, fmt.Errorf("nothing is masqueraded")
}
