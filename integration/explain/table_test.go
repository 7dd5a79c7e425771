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

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/foreign/simulate/path"
	"kube-vmap/sync"
	"kube-vmap/sync/source/manifests"
)

// flowless knows no connections.
type flowless struct{}

func (flowless) Flows(simulate.Packet) ([]simulate.Flow, error) { return nil, nil }

// network returns the network of the node, and its link to a pod that serves nothing.
func (r *rig) network() (*livenode.Network, simulate.Link) {
	r.t.Helper()
	network, err := livenode.OpenNetwork(r.Node.FD())
	r.must(err)
	r.t.Cleanup(func() { r.must(network.Close()) })
	link, err := network.Link(r.Pods[3].Link)
	r.must(err)
	return network, link
}

// TestRulesInMemoryAreThoseOfTheKernel simulates packets with a rule set that no kernel holds,
// and with the same one in the kernel.
func TestRulesInMemoryAreThoseOfTheKernel(t *testing.T) {
	r := newRig(t)
	random := rand.New(rand.NewPCG(15, 1))
	r.folder.Put("services", r.randomServices(random)...)
	events, problems := manifests.Load(r.folder.Dir(), r.Node.Name)
	r.must(errors.Join(problems...))
	rules, _ := sync.Build(sync.Config{
		NodeName: r.Node.Name, NodePorts: sync.NodePortAddresses{Primary: true},
		Rules: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Pods: lab.PodRanges},
	}, events)
	memory, err := dump.NewMemory(rules)
	r.must(err)
	_, err = labtest.Kernel(t, r.Node.Host).Apply(rules.Repair(nft.Tables{}))
	r.must(err)
	held, err := dump.Open(r.Node.FD())
	r.must(err)
	defer func() { r.must(held.Close()) }()
	network, link := r.network()
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
			if frontend.Pool.Scheduler != model.SchedulerRandom {
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

// TestTableOfAnotherProgramIsRead has maps of verdicts, sets and ranges, a rule to skip, and a
// dormant table.
func TestTableOfAnotherProgramIsRead(t *testing.T) {
	r := newRig(t)
	network, link := r.network()
	k, err := dump.Open(r.Node.FD())
	r.must(err)
	defer func() { r.must(k.Close()) }()
	name, all := simulate.Table{Family: "ip", Name: "others"}, func(string) bool { return true }
	if _, err := k.Table(name, all, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the table: %v", err)
	}
	const passes, drops = "not a Service", "dropped"
	for _, tc := range []struct {
		flags, rules string
		want         []string // for ports 1 to 3
		dormant      bool
	}{
		{"", "tcp dport vmap { 1 : drop, 2 : accept }", []string{drops, passes, passes}, false},
		{"", "tcp dport 1-2 drop", []string{drops, drops, passes}, false},
		{"", "tcp dport { 2-3, 9 } drop", []string{passes, drops, drops}, false},
		{"", `return comment "skipped"; tcp dport { 2-3, 9 } drop`, []string{passes, drops, drops}, true},
		{"flags dormant;", "tcp dport { 2-3, 9 } drop", []string{passes, drops, drops}, true},
	} {
		r.nft(fmt.Sprintf("table ip others; delete table ip others; table ip others { %s chain other { tcp dport { 7, 8 } drop; }; "+
			"chain pre { type filter hook prerouting priority 0; %s; }; }", tc.flags, tc.rules))
		table, err := k.Table(name, all, "skipped")
		r.must(err)
		s, err := simulate.NewSession(simulate.Sources{Rules: table, Network: network, Connections: flowless{}}, model.IPv4)
		r.must(err)
		var got []string
		for port := range uint16(3) {
			to := netip.AddrPortFrom(r.Outside.Addr(model.IPv4), port+1)
			result, err := s.Explore(simulate.Packet{From: r.Pods[3].Addr(model.IPv4), FromPort: 1, To: to, Protocol: model.TCP}, link)
			r.must(err)
			got = append(got, single(t, result).Verdict.String())
		}
		if !slices.Equal(got, tc.want) || table.Dormant != tc.dormant {
			t.Errorf("%s: %v, dormant %t, want %v, %t", tc.rules, got, table.Dormant, tc.want, tc.dormant)
		}
	}
}
