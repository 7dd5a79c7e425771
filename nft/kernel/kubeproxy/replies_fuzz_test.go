package kubeproxy

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nlenc"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

// attribute returns an attribute with a string, bytes or nested attributes.
func attribute(kind uint16, value any) netlink.Attribute {
	switch v := value.(type) {
	case string:
		return netlink.Attribute{Type: kind, Data: nlenc.Bytes(v)}
	case []byte:
		return netlink.Attribute{Type: kind, Data: v}
	}
	return netlink.Attribute{Type: kind | unix.NLA_F_NESTED, Data: nltest.MustMarshalAttributes(value.([]netlink.Attribute))}
}

type nest = []netlink.Attribute

// jump returns a rule of table nat, as the kernel sends it.
func jump(chain, target string) []byte {
	verdict := attribute(unix.NFTA_DATA_VERDICT, nest{attribute(unix.NFTA_VERDICT_CHAIN, target)})
	expression := nest{
		attribute(unix.NFTA_EXPR_NAME, "immediate"),
		attribute(unix.NFTA_EXPR_DATA, nest{attribute(unix.NFTA_IMMEDIATE_DATA, nest{verdict})}),
	}
	return nltest.MustMarshalAttributes(nest{
		attribute(unix.NFTA_RULE_TABLE, "nat"),
		attribute(unix.NFTA_RULE_CHAIN, chain),
		attribute(unix.NFTA_RULE_HANDLE, binary.BigEndian.AppendUint64(nil, 7)),
		attribute(unix.NFTA_RULE_EXPRESSIONS, nest{
			attribute(unix.NFTA_LIST_ELEM, nest{attribute(unix.NFTA_EXPR_NAME, "counter"), attribute(unix.NFTA_EXPR_DATA, []byte{1, 2})}),
			attribute(unix.NFTA_LIST_ELEM, expression),
		}),
	})
}

// chainNamed returns a chain of table nat, at a hook if base is true.
func chainNamed(name string, base bool) []byte {
	list := nest{attribute(unix.NFTA_CHAIN_TABLE, "nat"), attribute(unix.NFTA_CHAIN_NAME, name)}
	if base {
		list = append(list, attribute(unix.NFTA_CHAIN_HOOK, nest{}))
	}
	return nltest.MustMarshalAttributes(list)
}

// pack joins messages: of each its type, its length, the message.
func pack(rule bool, messages ...[]byte) []byte {
	var out []byte
	for _, m := range messages {
		kind := uint8(unix.NFT_MSG_NEWCHAIN)
		if rule {
			kind = unix.NFT_MSG_NEWRULE
		}
		out = binary.LittleEndian.AppendUint16(append(out, kind), uint16(len(m)))
		out = append(out, m...)
	}
	return out
}

// FuzzRuleOf decodes any bytes as a rule, and finds the comment of a rule that suspends a
// chain, in both forms.
func FuzzRuleOf(f *testing.F) {
	p := Part{Table: "nat", Chain: "KUBE-SERVICES"}
	names := nest{
		attribute(unix.NFTA_RULE_TABLE, p.Table), attribute(unix.NFTA_RULE_CHAIN, p.Chain),
		attribute(unix.NFTA_RULE_HANDLE, binary.BigEndian.AppendUint64(nil, 7)),
	}
	match := nest{
		attribute(unix.NFTA_EXPR_NAME, "match"),
		attribute(unix.NFTA_EXPR_DATA, nest{
			attribute(unix.NFTA_MATCH_NAME, "comment"), attribute(unix.NFTA_MATCH_INFO, append([]byte(SuspendComment), make([]byte, 200)...)),
		}),
	}
	native := append(slices.Clone(names), attribute(unix.NFTA_RULE_USERDATA, append([]byte{attr.CommentTag, byte(len(SuspendComment) + 1)}, SuspendComment+"\x00"...)))
	restored := append(slices.Clone(names), attribute(unix.NFTA_RULE_EXPRESSIONS, nest{attribute(unix.NFTA_LIST_ELEM, match)}))
	for _, rule := range []nest{native, restored} {
		b := nltest.MustMarshalAttributes(rule)
		if handle, comment, in := ruleOf(&attr.Decoder{}, b, p); handle != 7 || comment != SuspendComment || !in {
			f.Errorf("rule %d with comment %q, in the chain: %v", handle, comment, in)
		}
		f.Add(b)
		f.Add(b[:len(b)-5])
	}
	f.Fuzz(func(_ *testing.T, rule []byte) { ruleOf(&attr.Decoder{}, rule, p) })
}

// FuzzRead decodes any bytes as chains and rules of table nat. A batch can be made of the
// result, and it touches nothing that is not kube-proxy's.
func FuzzRead(f *testing.F) {
	const service = "KUBE-SVC-ABCDEFGHIJKLMNOP"
	chains := pack(false, chainNamed("PREROUTING", true), chainNamed("KUBE-SERVICES", false), chainNamed(service, false), chainNamed("MINE", false))
	rules := pack(true, jump("PREROUTING", "KUBE-SERVICES"), jump("KUBE-SERVICES", service), jump("MINE", markChain), jump("PREROUTING", "MINE"))
	f.Add(append(slices.Clone(chains), rules...))
	f.Add(append(slices.Clone(rules), chains...))
	f.Add(rules[:len(rules)-9])
	f.Add(pack(true, jump("", ""), jump("KUBE-SERVICES", "KUBE-SERVICES")))
	f.Add(pack(false, chainNamed("KUBE-SERVICES", true), chainNamed("", true)))
	f.Fuzz(func(t *testing.T, dump []byte) {
		nat := &table{Table: Table{Name: "nat", Chains: map[string]bool{}}}
		for b := dump; len(b) >= 3; {
			n := min(int(binary.LittleEndian.Uint16(b[1:])), len(b)-3)
			read := nat.addChain
			if b[0] == unix.NFT_MSG_NEWRULE {
				read = func(d *attr.Decoder, attributes []byte) { nat.addRule(d, attributes, "") }
			}
			read(&attr.Decoder{}, b[3:3+n])
			b = b[3+n:]
		}
		if len(nat.Rules) != len(nat.handles) || len(nat.Rules)+len(nat.Chains) > len(dump) {
			t.Fatalf("%d bytes became %d chains, %d rules, %d handles", len(dump), len(nat.Chains), len(nat.Rules), len(nat.handles))
		}
		p := nat.Plan()
		_ = p.String()
		for _, name := range slices.Concat(p.Empty, p.Delete) {
			if _, there := nat.Chains[name]; !there || !IsChain("nat", name) {
				t.Errorf("chain %q is not kube-proxy's", name)
			}
		}
		for _, i := range p.Unhook {
			if r := nat.Rules[i]; !nat.Chains[r.Chain] || !IsHooked("nat", r.Target) {
				t.Errorf("rule %+v is not kube-proxy's", r)
			}
		}
		if !p.IsEmpty() {
			b := newBatch(model.IPv6, &state{tables: []*table{nat}}, []Plan{p})
			if want := len(p.Unhook) + len(p.Empty) + len(p.Delete); len(b.Messages) != want {
				t.Errorf("%d messages, want %d", len(b.Messages), want)
			}
		}
		nat.dropHookRules()
		for i := range nat.Rules {
			if nat.Chains[nat.Rules[i].Chain] {
				t.Errorf("rule %+v is not dropped", nat.Rules[i])
			}
		}
	})
}
