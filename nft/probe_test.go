package nft

import (
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// expressionsOf lists the expressions of the rules of a batch, with the family,
// the message and the offset that an error would name.
func expressionsOf(t *testing.T, e *Encoded) map[string][2]uint32 {
	t.Helper()
	out := map[string][2]uint32{}
	for _, m := range split(t, e.Bytes) {
		if m.kind != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWRULE {
			continue
		}
		for _, a := range attrs(t, m.raw, headerLen+nfHeaderLen, len(m.raw)) {
			if a.kind&^unix.NLA_F_NESTED != unix.NFTA_RULE_EXPRESSIONS {
				continue
			}
			for _, x := range attrs(t, m.raw, a.offset+attrLen, a.offset+attrLen+len(a.value)) {
				out[expressionAt(m.raw, x.offset)] = [...]uint32{m.sequence, uint32(x.offset)}
			}
		}
	}
	return out
}

func TestTheSampleHasEveryExpressionAndHook(t *testing.T) {
	config := Config{MasqueradeMark: DefaultMasqueradeMark, DropInvalid: true, CountConnections: true}
	_, all := Adopt(sampleConfig, Tables{}, sample(50))
	tried, used := encoded(t, Sample(config)), encoded(t, all)
	have := expressionsOf(t, tried)
	for name := range expressionsOf(t, used) {
		if _, tried := have[name]; !tried || name == "" {
			t.Errorf("expression %q is used and not tried", name)
		}
	}
	kinds := map[ChainID]bool{}
	sets := map[SetID]bool{}
	for _, op := range Sample(config) {
		switch op := op.(type) {
		case AddChain:
			kinds[ChainID{Family: op.Chain.Family, Kind: op.Chain.Kind, Method: op.Chain.Method}] = true
		case AddElements:
			sets[SetID{Family: op.Set.Family, Kind: op.Set.Kind}] = true
		case AddEndpoints:
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
			if m != pickMaglev && !kinds[ChainID{Family: f, Kind: ChainBalance, Method: m}] {
				t.Errorf("chain %s of %s is not tried", methodNames[m], families[f].name)
			}
		}
		for kind := range setKinds {
			unfilled := kind == SetNoEndpointServices || kind == SetNoEndpointNodePorts || kind == SetNodeIPs || kind == SetHairpin || kind == SetAffinity || kind == SetConnections ||
				kind == SetStickyEndpointsMany // many chains, and nothing else that is new
			if !unfilled && !sets[SetID{Family: f, Kind: kind}] {
				t.Errorf("set %s of %s is not tried", setSchema[kind].name, families[f].name)
			}
		}
	}
}

func TestWhatAKernelLacksIsNamed(t *testing.T) {
	batch := Sample(Config{MasqueradeMark: DefaultMasqueradeMark})
	e := encoded(t, batch)
	found := expressionsOf(t, e)
	for name, option := range map[string]string{
		"numgen": "numgen (CONFIG_NFT_NUMGEN)", "nat": "nat (CONFIG_NFT_NAT)", "masq": "masq (CONFIG_NFT_MASQ)",
		"reject": "reject (CONFIG_NFT_REJECT)", "ct": "ct (CONFIG_NFT_CT)", "lookup": "lookup",
		"fib": "fib (CONFIG_NFT_FIB)", "hash": "hash (CONFIG_NFT_HASH)", "dynset": "dynset", "objref": "objref", "payload": "payload",
	} {
		at, used := found[name]
		if !used {
			t.Errorf("no rule has the expression %s", name)
			continue
		}
		err := e.Explain(at[0], at[1], unix.ENOENT, "")
		if got, want := err.Missing(), "the nf_tables expression "+option; got != want {
			t.Errorf("without %s the kernel lacks %q, want %q", name, got, want)
		}
	}
	for _, tt := range []struct {
		op   Op
		want string
	}{
		{nil, "nf_tables (CONFIG_NF_TABLES)"},
		{AddTable{Family: model.IPv6}, "nf_tables for family ip6 (CONFIG_NF_TABLES_IPV6)"},
		{AddTable{Family: model.IPv4}, "nf_tables for family ip (CONFIG_NF_TABLES_IPV4)"},
		{AddChain{ChainID{Kind: ChainNATOutput}}, "chains of type nat (CONFIG_NF_NAT)"},
	} {
		if got := (&Error{Op: tt.op, Errno: unix.EOPNOTSUPP}).Missing(); got != tt.want {
			t.Errorf("refusing %v the kernel lacks %q, want %q", tt.op, got, tt.want)
		}
	}
	chain := AddChain{ChainID{Kind: ChainFilterInput}}
	if got := (&Error{Op: chain, Errno: unix.EINVAL}).Missing(); !strings.Contains(got, chain.String()) {
		t.Errorf("refusing a chain the kernel lacks %q, which does not name it", got)
	}
}

func TestAnOffsetElsewhereIsOfNoExpression(t *testing.T) {
	e := encoded(t, Sample(Config{MasqueradeMark: DefaultMasqueradeMark}))
	for _, m := range split(t, e.Bytes) {
		if m.kind&0xff != unix.NFT_MSG_NEWRULE {
			continue
		}
		for _, offset := range []int{-1, 0, headerLen, headerLen + nfHeaderLen, len(m.raw) - 1, len(m.raw), len(m.raw) + 100} {
			if got := expressionAt(m.raw, offset); got != "" {
				t.Errorf("offset %d of a rule of %d bytes is of expression %q", offset, binary.NativeEndian.Uint32(m.raw), got)
			}
		}
	}
}
