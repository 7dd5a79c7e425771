package nft

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
)

// TestRulesOfNamedProxy compares the rule set of a proxy with a name, line by line, with the node's
// own one.
func TestRulesOfNamedProxy(t *testing.T) {
	defer model.SetProxyName("")
	render := func(name string, c Config) []string {
		model.SetProxyName(name)
		rules, _ := Adopt(c, Tables{}, Change{Set: samples(model.IPv4, netip.MustParseAddr("10.96.0.1"))})
		var out strings.Builder
		if err := rules.Render(&out); err != nil {
			t.Fatal(err)
		}
		if strings.Count(out.String(), " "+TableName()) < len(model.Families) {
			t.Errorf("the tables of %q have another name", name)
		}
		return strings.Split(strings.ReplaceAll(out.String(), TableName(), "TABLE"), "\n")
	}
	diff := func(c Config) (lines []string) {
		other := render("edge", c)
		for _, line := range render("", c) {
			line = strings.TrimSpace(line)
			i := slices.IndexFunc(other, func(o string) bool { return strings.TrimSpace(o) == line })
			if i >= 0 {
				other = slices.Delete(other, i, i+1)
			} else if !slices.Contains(lines, "- "+line) {
				lines = append(lines, "- "+line)
			}
		}
		for _, line := range other {
			if line = "+ " + strings.TrimSpace(line); !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	hooks := []string{
		"- type nat hook prerouting priority dstnat - 1; policy accept;",
		"- type nat hook output priority -101; policy accept;",
		"- type filter hook input priority filter; policy accept;",
		"- type filter hook forward priority filter; policy accept;",
		"- type filter hook output priority filter; policy accept;",
		"+ type nat hook prerouting priority dstnat + 1; policy accept;",
		"+ type nat hook output priority -99; policy accept;",
		"+ type filter hook input priority filter - 1; policy accept;",
		"+ type filter hook forward priority filter - 1; policy accept;",
		"+ type filter hook output priority filter - 1; policy accept;",
	}
	labels := []string{
		"- meta mark & 0x00004000 != 0x00000000 ct status dnat meta mark set meta mark & 0xffffbfff goto source-port",
		"- ct label 120 meta mark set meta mark & 0xffffbfff goto source-port",
		"- ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000 ct label set 120",
		"- meta mark set meta mark | 0x00004000 ct label set 120",
		"- ct status ! dnat ip daddr @external-ips fib daddr . iif oif != 0 ct label set 121",
		"- ct status ! dnat ip6 daddr @external-ips fib daddr . iif oif != 0 ct label set 121",
		"- ct status ! dnat ct label 121 drop",
		"+ ct status ! dnat ip daddr @external-ips fib daddr . iif oif != 0 ct label set 73",
		"+ ct status ! dnat ip6 daddr @external-ips fib daddr . iif oif != 0 ct label set 73",
		"+ ct status ! dnat ct label 73 drop",
		"+ ct label 72 meta mark set meta mark & 0xffffbfff goto source-port",
		"+ ip saddr != 10.244.0.0/16 ct label set 72",
		"+ ct label set 72",
	}
	c := sampleConfig
	for _, c.NoLabels = range []bool{false, true} {
		want := slices.Clone(hooks)
		if !c.NoLabels {
			want = append(want, labels...)
		}
		if got := diff(c); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("without labels %t: the difference is\n%s", c.NoLabels, strings.Join(got, "\n"))
		}
	}
}

func TestSampleHasEveryChainAndSet(t *testing.T) {
	config := sampleConfig
	kinds := map[ChainID]bool{}
	sets := map[SetID]bool{}
	for _, op := range Sample(config) {
		switch op := op.(type) {
		case AddChain:
			kinds[ChainID{Family: op.Chain.Family, Kind: op.Chain.Kind, Method: op.Chain.Method}] = true
		case AddElements:
			sets[SetID{Family: op.Set.Family, Kind: op.Set.Kind}] = true
		case AddFrontends:
			sets[SetID{Family: op.Set.Family, Kind: op.Set.Kind}] = true
		}
	}
	for _, f := range model.Families {
		for kind := range chainKinds {
			if kind != ChainBalance && kind != ChainMasquerade && !kinds[ChainID{Family: f, Kind: kind}] {
				t.Errorf("chain %s of %s is not tried", chainSchema[kind].name, families[f].name)
			}
		}
		for m := range methods {
			// Maglev is as source hash, but larger.
			if !m.isMaglev() && !kinds[ChainID{Family: f, Kind: ChainBalance, Method: m}] {
				t.Errorf("chain %s of %s is not tried", methodSchema[m].name, families[f].name)
			}
		}
		for kind := range setKinds {
			unfilled := kind == SetNoEndpointServices || kind == SetNoEndpointNodePorts || kind == SetNodeIPs || kind == SetHairpin || kind == SetAffinity || kind == SetConnections || kind == SetUncounted ||
				kind == SetHeld || kind == SetWaiting || kind == SetRetrying || kind == SetAccepted
			if !unfilled && !sets[SetID{Family: f, Kind: kind}] {
				t.Errorf("set %s of %s is not tried", setSchema[kind].name, families[f].name)
			}
		}
	}
}
