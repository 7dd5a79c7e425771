package wire

import (
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
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
		for _, a := range attrs(t, m.raw, attr.MessageHeaderLen+attr.BodyHeaderLen, len(m.raw)) {
			if a.kind&^unix.NLA_F_NESTED != unix.NFTA_RULE_EXPRESSIONS {
				continue
			}
			for _, x := range attrs(t, m.raw, a.offset+attr.HeaderLen, a.offset+attr.HeaderLen+len(a.value)) {
				out[expressionAt(m.raw, x.offset)] = [...]uint32{m.sequence, uint32(x.offset)}
			}
		}
	}
	return out
}

func TestSampleHasEveryExpression(t *testing.T) {
	_, all := nft.Adopt(sampleConfig, nft.Tables{}, sample(50))
	tried, used := encoded(t, nft.Sample(sampleConfig)), encoded(t, all)
	have := expressionsOf(t, tried)
	for name := range expressionsOf(t, used) {
		if _, tried := have[name]; !tried || name == "" {
			t.Errorf("expression %q is used and not tried", name)
		}
	}
}

func TestMissingNamesTheKernelOption(t *testing.T) {
	batch := nft.Sample(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark})
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
		op   nft.Op
		want string
	}{
		{nil, "nf_tables (CONFIG_NF_TABLES)"},
		{nft.AddTable{Family: model.IPv6}, "nf_tables for family ip6 (CONFIG_NF_TABLES_IPV6)"},
		{nft.AddTable{Family: model.IPv4}, "nf_tables for family ip (CONFIG_NF_TABLES_IPV4)"},
		{nft.AddChain{Chain: nft.ChainID{Kind: nft.ChainNATOutput}}, "chains of type nat (CONFIG_NF_NAT)"},
	} {
		if got := (&Error{Op: tt.op, Errno: unix.EOPNOTSUPP}).Missing(); got != tt.want {
			t.Errorf("refusing %v the kernel lacks %q, want %q", tt.op, got, tt.want)
		}
	}
	chain := nft.AddChain{Chain: nft.ChainID{Kind: nft.ChainFilterInput}}
	if got := (&Error{Op: chain, Errno: unix.EINVAL}).Missing(); !strings.Contains(got, chain.String()) {
		t.Errorf("refusing a chain the kernel lacks %q, which does not name it", got)
	}
}

func TestOffsetOutsideExpressions(t *testing.T) {
	e := encoded(t, nft.Sample(nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}))
	for _, m := range split(t, e.Bytes) {
		if m.kind&0xff != unix.NFT_MSG_NEWRULE {
			continue
		}
		for _, offset := range []int{-1, 0, attr.MessageHeaderLen, attr.MessageHeaderLen + attr.BodyHeaderLen, len(m.raw) - 1, len(m.raw), len(m.raw) + 100} {
			if got := expressionAt(m.raw, offset); got != "" {
				t.Errorf("offset %d of a rule of %d bytes is of expression %q", offset, binary.NativeEndian.Uint32(m.raw), got)
			}
		}
	}
}
