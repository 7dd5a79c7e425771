package kubeproxy

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
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
		text := fmt.Sprintf("insert rule %s return comment %q", p, SuspendComment) // iptables-nft lists it as "-j RETURN"
		family := nft.FamilyNumber(p.Family)
		b = append(b, change(text, unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE, family, func(e *attr.Encoder) {
			socket.EncodeRule(e, family, p.Table, p.Chain, SuspendComment, &expr.Verdict{Kind: expr.VerdictReturn})
		}))
	}
	return b
}

// Resume returns the changes that undo [Found.Suspend]. Rules are deleted by their handles, which
// are valid in this state of nf_tables only: if another program commits in between, the kernel
// refuses the batch with ERESTART, and [Find] has to be called again. Without a suspended part
// the batch is empty.
func (f *Found) Resume() (b nft.Batch) {
	for _, p := range f.Suspended() {
		for _, handle := range p.handles {
			text := fmt.Sprintf("delete rule %s handle %d", p, handle)
			b = append(b, change(text, unix.NFT_MSG_DELRULE, 0, nft.FamilyNumber(p.Family), func(e *attr.Encoder) {
				encodeRuleRef(e, p.Table, p.Chain, handle)
			}))
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

// The marker is a table with the name of kube-proxy's and one chain without a hook. Calico's
// Felix looks for any chain in that table to find out whether kube-proxy is in nftables
// mode, and restarts in iptables mode when there is none (tigera/operator 4389).
const (
	markerChain   = "kube-vmap-marker"
	markerComment = "left by kube-vmap for programs that look for kube-proxy"
)

// AddMarker returns the changes that add the marker in a family. If it exists already nothing
// happens, and a table of kube-proxy only gets one more chain.
func AddMarker(f model.Family) nft.Batch {
	name := nft.FamilyName(f) + " " + tableName
	return nft.Batch{
		change("add table "+name, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, nft.FamilyNumber(f), markerTable),
		change("add chain "+name+" "+markerChain, unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, nft.FamilyNumber(f),
			markerChainOf),
	}
}

func markerTable(e *attr.Encoder) {
	e.String(unix.NFTA_TABLE_NAME, tableName)
	e.Comment(attrTableUserdata, markerComment)
}

func markerChainOf(e *attr.Encoder) {
	e.String(unix.NFTA_CHAIN_TABLE, tableName)
	e.String(unix.NFTA_CHAIN_NAME, markerChain)
}

// DeleteMarkers returns the changes that delete the markers which were found. Like the changes of
// [Found.Resume] they are valid in this state of nf_tables only: the table may be a running
// kube-proxy's a moment later.
func (f *Found) DeleteMarkers() nft.Batch {
	var b nft.Batch
	for _, family := range f.Markers {
		text := "delete table " + nft.FamilyName(family) + " " + tableName
		b = append(b, change(text, unix.NFT_MSG_DELTABLE, 0, nft.FamilyNumber(family), func(e *attr.Encoder) {
			e.String(unix.NFTA_TABLE_NAME, tableName)
		}))
	}
	return f.atGeneration(b)
}

// isMarker reports whether these chains of the table of nftables mode are only the marker.
// Its comment is no sign of that: the table keeps it when kube-proxy adds its own chains.
func isMarker(all map[string]bool) bool {
	base, exists := all[markerChain]
	return exists && !base && len(all) == 1
}
