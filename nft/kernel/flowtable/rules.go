package flowtable

import (
	"encoding/binary"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/socket"
)

// priority of the chain, after filters of others: what they drop does not enter.
const priority = 10

func addChains(b *socket.Batch, after uint64) {
	b.AddChain(family, TableName, chainEnter, nil)
	b.AddChain(family, TableName, chainForward, &socket.Hook{Number: unix.NF_INET_FORWARD, Priority: priority})
	b.AddRule(family, TableName, chainForward, "", established(after)...)
	b.AddRule(family, TableName, chainEnter, "", betweenBridges()...)
	b.AddRule(family, TableName, chainEnter, "", &expr.FlowOffload{Name: flowtableName})
}

// Bits of connections (include/uapi/linux/netfilter/nf_conntrack_common.h).
const (
	stateEstablished = 1 << 1 // of `ct state`
	statusDNAT       = 1 << 5 // IPS_DST_NAT
)

// established matches translated connections after so many packets of both directions.
func established(after uint64) []expr.Any {
	const r = unix.NFT_REG_1
	bit := func(key expr.CtKey, mask uint32) []expr.Any {
		bits := binary.NativeEndian.AppendUint32(nil, mask)
		return socket.Compare(&expr.Ct{Key: key, Register: r}, bits, expr.CmpOpNeq, make([]byte, 4))
	}
	out := append(bit(expr.CtKeySTATE, stateEstablished), bit(expr.CtKeySTATUS, statusDNAT)...)
	return append(out,
		&expr.Ct{Key: expr.CtKeyPKTS, Register: r},
		&expr.Byteorder{SourceRegister: r, DestRegister: r, Op: expr.ByteorderHton, Len: 8, Size: 8},
		&expr.Cmp{Op: expr.CmpOpGt, Register: r, Data: binary.BigEndian.AppendUint64(nil, after)},
		&expr.Verdict{Kind: expr.VerdictGoto, Chain: chainEnter},
	)
}

// Keys of meta that package expr has no names for (include/uapi/linux/netfilter/nf_tables.h).
const (
	metaInputKind  = 26 // NFT_META_IIFKIND
	metaOutputKind = 27 // NFT_META_OIFKIND
)

// betweenBridges returns if the packet comes from a bridge and goes to one.
func betweenBridges() []expr.Any {
	kind := append([]byte("bridge"), make([]byte, unix.IFNAMSIZ-len("bridge"))...)
	var out []expr.Any
	for _, key := range [...]expr.MetaKey{metaInputKind, metaOutputKind} {
		out = append(out, socket.Compare(&expr.Meta{Key: key, Register: unix.NFT_REG_1}, nil, expr.CmpOpEq, kind)...)
	}
	return append(out, &expr.Verdict{Kind: expr.VerdictReturn})
}
