package kubeproxy

import (
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/socket"
)

// SuspendComment is the comment of each rule that suspends a chain, by which they are found
// again, in both backends of iptables and in nftables mode.
const SuspendComment = "suspended by kube-vmap"

// Suspend returns the changes after which no part translates packets: each part begins with a
// rule that returns. Everything else stays as it is. [Found.Resume] undoes it, and so does a
// kube-proxy that runs: in iptables and ipvs mode with its next sync, in nftables mode with
// the next full one, which is hourly, or when it starts. Without a part that is awake the
// batch is empty.
//
// The flag "dormant" would suspend a table of nftables mode in one step, too. But a
// kube-proxy that starts on a dormant table fails its first sync (1.36.3 on Linux 6.18): it
// clears the flag and replaces the base chains in one transaction, and that is refused
// (nf_tables_addchain, __NFT_TABLE_F_UPDATE).
func (f *Found) Suspend() nft.Batch {
	var b nft.Batch
	for _, p := range f.Awake() {
		b = append(b, p.insertReturn(""))
	}
	return b
}

// Resume returns the changes that undo [Found.Suspend]. Rules are deleted by their handles, which
// are valid in this state of nf_tables only: if another program commits in between, the kernel
// refuses the batch with ERESTART, and [Find] has to be called again. Without a suspended part
// the batch is empty.
func (f *Found) Resume() nft.Batch {
	var b nft.Batch
	for _, p := range f.Suspended() {
		for _, handle := range p.handles {
			b = append(b, p.deleteRule(handle))
		}
	}
	return f.atGeneration(b)
}

func (f *Found) atGeneration(b nft.Batch) nft.Batch {
	for i, op := range b {
		change := op.(nft.ForeignChange)
		change.Generation = f.generation
		b[i] = change
	}
	return b
}

// insertReturn inserts "return" at the head of the chain, with conditions, which nft prints as
// match. iptables-nft lists it as "-j RETURN".
func (p Part) insertReturn(match string, conditions ...expr.Any) nft.Op {
	text := fmt.Sprintf("insert rule %s %sreturn comment %q", p, match, SuspendComment)
	family := nft.FamilyNumber(p.Family)
	return change(text, unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE, family, func(e *attr.Encoder) {
		list := append(slices.Clip(conditions), &expr.Verdict{Kind: expr.VerdictReturn})
		socket.EncodeRule(e, family, p.Table, p.Chain, SuspendComment, list...)
	})
}

func (p Part) deleteRule(handle uint64) nft.Op {
	text := fmt.Sprintf("delete rule %s handle %d", p, handle)
	return change(text, unix.NFT_MSG_DELRULE, 0, nft.FamilyNumber(p.Family), func(e *attr.Encoder) {
		e.String(unix.NFTA_RULE_TABLE, p.Table)
		e.String(unix.NFTA_RULE_CHAIN, p.Chain)
		e.Uint64(unix.NFTA_RULE_HANDLE, handle)
	})
}

// change returns a change of another program's object. It panics if an attribute is too long
// for netlink, which no name is that the kernel knows.
func change(text string, kind, flags uint16, family uint8, attributes func(*attr.Encoder)) nft.Op {
	var e attr.Encoder
	attributes(&e)
	if err := e.Err(); err != nil {
		panic("kubeproxy: " + err.Error())
	}
	return nft.ForeignChange{Text: text, Kind: kind, Flags: flags, Family: family, Attributes: e.Bytes}
}
