package simulate

import (
	"net/netip"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// TestForeignLookupsNameSetAndKey has rules such as "ip saddr @blocked drop".
func TestForeignLookupsNameSetAndKey(t *testing.T) {
	source := &expr.Payload{OperationType: expr.PayloadLoad, DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
	drop := verdictOf(expr.VerdictDrop, "")
	for _, tc := range []struct {
		name  string
		rule  []any
		want  string
		unset bool // the set is empty
	}{
		{"in a set", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "blocked"}, drop}, "set blocked has 192.0.2.9: dropped", false},
		{"not in a set", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "blocked", Invert: true}, drop}, "set blocked does not have 192.0.2.9: dropped", true},
		{"in an anonymous set", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "__set0"}, drop}, "the rule's own set has 192.0.2.9: dropped", false},
		{"in a map", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "fates", IsDestRegSet: true}}, "map fates has 192.0.2.9: dropped", false},
		{"refused", []any{source, &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: "blocked"}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}, "set blocked has 192.0.2.9: rejected with a TCP reset", false},
		{"without a condition", []any{drop}, "dropped", false},
	} {
		f := node()
		for name, of := range map[string]Set{"blocked": {}, "__set0": {Anonymous: true}, "fates": {IsMap: true}} {
			of.KeyType, of.KeyLen = uint32(typeIPv4), 4
			f.shape[name] = &of
			if !tc.unset {
				f.sets[name] = map[string]Element{string(client.AsSlice()): {}}
			}
		}
		f.sets["fates"] = map[string]Element{string(client.AsSlice()): {Verdict: drop}}
		f.chain(otherTable, "forward", "filter", HookForward, 0, tc.rule)
		o, w := only(t, f, sample)
		if last := w.Steps[len(w.Steps)-1].Text; o.Verdict.Arrives() || last != tc.want {
			t.Errorf("%s: %s, %q, want %q", tc.name, o.Verdict, last, tc.want)
		}
	}
}

// TestSimilarCountsEndpointsNotElements has a table as Maglev fills it.
func TestSimilarCountsEndpointsNotElements(t *testing.T) {
	f := node()
	for n, chain := range []string{"ep-0", "ep-1", "ep-2"} {
		f.add(Chain{oursTable, chain}, to(netip.AddrPortFrom(endpoint.Addr(), uint16(8080+n))))
	}
	f.chain(oursTable, "nat-prerouting", "nat", HookPrerouting, -100,
		f.picks("ep-0", "ep-1", "ep-0", "ep-2", "ep-1", "ep-0", "ep-2"))
	w := run(t, f)
	last := w.Steps[len(w.Steps)-1]
	if len(w.Outcomes) != 1 || len(w.Outcomes[0].Endpoints) != 3 || last.Endpoint != endpoint.String() || last.Similar != 2 {
		t.Errorf("%d others, want 2: %+v of %+v", last.Similar, last, w.Outcomes)
	}
}
