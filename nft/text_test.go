package nft

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/nfttest"
)

// longest remembers the longest piece that was written.
type longest struct {
	strings.Builder
	piece int
}

func (l *longest) Write(p []byte) (int, error) {
	l.piece = max(l.piece, len(p))
	return l.Builder.Write(p)
}

// TestRenderWritesInPieces, since a set of a big cluster has tens of megabytes.
func TestRenderWritesInPieces(t *testing.T) {
	rules, _ := Adopt(sampleConfig, Tables{}, sample(2000))
	var out longest
	if err := rules.Render(&out); err != nil {
		t.Fatal(err)
	}
	if out.Len() < 1<<20 || out.piece > 16<<10 {
		t.Errorf("of %d bytes, %d are written in one piece", out.Len(), out.piece)
	}
}

func TestDifferencesAreLinesOfElementsAndObjects(t *testing.T) {
	key := Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: model.TCP, Port: 80}
	to := Value{Endpoint: netip.MustParseAddrPort("10.244.0.1:8080")}
	address, all := Key{Addr: key.Addr, Bits: 32}, Key{Addr: netip.MustParseAddr("10.96.0.0"), Bits: 16}
	batch := Batch{
		AddElements{SetID{Kind: SetServices}, []Element{{Key: key, Value: goesTo(ChainID{Kind: ChainBalance, N: 1}), Service: &webPort}}},
		AddElements{SetID{Kind: SetEndpoints}, []Element{{Key: key, Value: to, Service: &webPort}}},
		DeleteElements{SetID{Kind: SetEndpoints, Slot: 1}, []Element{{Key: key, Value: to}}},
		DeleteElements{SetID{Kind: SetServiceCIDRs}, []Element{{Key: address}, {Key: all}}},
		FlushChain{model.IPv4, "another"},
		DeleteChain{model.IPv6, "another"},
	}
	want := `- ip kube-vmap chain another: its rules
+ ip kube-vmap map endpoints-0: 10.96.0.1 . tcp . 80 : 10.244.0.1 . 8080 # shop/web:http
- ip kube-vmap map endpoints-1: 10.96.0.1 . tcp . 80 : 10.244.0.1 . 8080
+ ip kube-vmap map services: 10.96.0.1 . tcp . 80 comment "shop/web:http" : goto lb-1
- ip kube-vmap set service-cidrs: 10.96.0.1
- ip kube-vmap set service-cidrs: 10.96.0.0/16
- ip6 kube-vmap chain another
`
	var s strings.Builder
	if err := batch.Differences(&s); err != nil {
		t.Fatal(err)
	}
	if s.String() != want {
		t.Errorf("they read\n%s\nwant\n%s", s.String(), want)
	}
}

func TestTablesAsTextShowForeignChanges(t *testing.T) {
	rules, _ := load(0)
	own := rules.Tables()[model.IPv4]
	chains := map[string]ChainState{
		"another":      {Hook: HookState{Type: "filter", Number: 1}, Rules: []Fingerprint{1}},
		"filter-input": {Hook: HookState{Type: "filter", Number: 2, Priority: 5}},
		"nat-output":   own.Chains["nat-output"],
		"restore":      {Rules: []Fingerprint{1}},
	}
	sets := map[string]SetState{"another": {}, "cluster-ips": own.Sets["cluster-ips"], "services": {}}
	for name, tt := range map[string]struct {
		table *Table
		want  []string
	}{
		"no table": {nil, nil},
		"table that is owned": {&Table{Owner: 9, Protected: true}, []string{
			"table ip kube-vmap { # belongs to netlink port 9}",
		}},
		"table whose owner left": {&Table{Protected: true}, []string{
			"table ip kube-vmap { # its owner is removed}",
		}},
		"table that is dormant": {&Table{Dormant: true}, []string{"table ip kube-vmap {", "\tflags dormant}"}},
		"sets": {&Table{Sets: sets}, []string{
			"table ip kube-vmap {",
			"\t# set or map another is none that kube-vmap makes",
			"",
			"\tset cluster-ips {", "\t\ttype ipv4_addr", "\t\tsize 384", "\t}",
			"",
			"\t# set or map services is none that kube-vmap makes",
			"}",
		}},
		"chains": {&Table{Chains: chains}, []string{
			"table ip kube-vmap {",
			"\tchain another {", "\t\t# type filter, hook 1, priority 0",
			"\t\t# a rule that kube-vmap does not make here with these flags", "\t}",
			"",
			"\tchain filter-input {", "\t\t# type filter, hook 2, priority 5", "\t}",
			"",
			"\tchain nat-output {",
			"\t\ttype nat hook output priority -101; policy accept;",
			"\t\tmeta mark 0x00002000 return",
			"\t\tjump dispatch",
			"\t\tip daddr . meta l4proto . th dport vmap @local-services",
			"\t\tip daddr @node-ips meta l4proto . th dport vmap @local-node-ports",
			"\t\ticmp type echo-request ip daddr @cluster-ips ip daddr != @no-ping-ips dnat to 192.0.2.1",
			"\t}",
			"",
			"\tchain restore {", "\t\t# a rule that kube-vmap does not make here with these flags", "\t}",
			"}",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var s strings.Builder
			if err := (Tables{model.IPv4: tt.table}).Render(&s, sampleConfig); err != nil {
				t.Fatal(err)
			}
			if got, want := s.String(), strings.Join(append(tt.want, ""), "\n"); got != want {
				t.Errorf("it reads\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestSortConnectionsKeepsTheGreaterCount(t *testing.T) {
	for _, f := range model.Families {
		var list, want []ConnectionCount
		for i := range 20 {
			c := ConnectionCount{
				Destination: model.Match{Family: f, Addr: nfttest.Addr(f, 96, i/2), Protocol: model.TCP, Port: 80},
				Endpoint:    netip.AddrPortFrom(nfttest.Addr(f, 244, i), 8080), Connections: uint64(1000 - i),
			}
			before := c
			before.Connections /= 2
			want, list = append(want, c), append(list, c, before)
		}
		slices.Reverse(list)
		if got := SortConnections(list); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestConnectionsAsText(t *testing.T) {
	asked := model.Match{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: model.UDP, Port: 53}
	six := model.Match{Family: model.IPv6, Addr: netip.MustParseAddr("fd00::a"), Protocol: model.SCTP, Port: 80}
	batch := Batch{
		DeleteConnections{model.IPv4, []ConnectionCount{{asked, netip.MustParseAddrPort("10.244.0.1:5353"), 3}, {Destination: asked}}},
		AddConnections{model.IPv4, []ConnectionCount{{Destination: asked, Connections: 7}}},
		AddConnections{model.IPv6, []ConnectionCount{{Destination: six, Connections: 1}}},
	}
	const want = `delete element ip kube-vmap connections { 10.96.0.10 . udp . 53 . 10.244.0.1 . 5353, 10.96.0.10 . udp . 53 . 0.0.0.0 . 0 }
add element ip kube-vmap connections { 10.96.0.10 . udp . 53 . 0.0.0.0 . 0 counter packets 7 bytes 0 }
add element ip6 kube-vmap connections { fd00::a . sctp . 80 . :: . 0 counter packets 1 bytes 0 }
`
	if got := batch.String(); got != want {
		t.Errorf("is\n%s\nwant\n%s", got, want)
	}
	if c := batch.Counts(); c != (Counts{Added: 2, Deleted: 2}) {
		t.Errorf("counts as %+v", c)
	}
}
