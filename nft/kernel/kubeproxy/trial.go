package kubeproxy

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/socket"
)

// Trial returns the changes after which TCP connections from one source port pass kube-proxy's
// rules instead of ours, whether its rules are suspended or not: their suspension excepts the
// port, and ours are suspended for it. All other packets pass the same rules as before. End it
// with [Found.EndTrial], or with what deletes our tables and resumes kube-proxy's rules.
func (f *Found) Trial(ours []Part, port uint16) nft.Batch {
	b := f.Resume()
	for _, p := range f.Suspended() {
		b = append(b, p.insertReturnIf("meta l4proto != tcp", notTCP), p.insertReturnIf("tcp sport != "+fmt.Sprint(port), sourcePort(unix.NFT_CMP_NEQ, port)))
	}
	for _, p := range ours {
		b = append(b, p.insertReturnIf(fmt.Sprint("tcp sport ", port), onlyTCP, sourcePort(unix.NFT_CMP_EQ, port)))
	}
	return f.atGeneration(b)
}

// EndTrial returns the changes that undo [Found.Trial]. Read f and ours during it.
func (f *Found) EndTrial(ours []Part) nft.Batch {
	b := f.Resume()
	for _, p := range f.Suspended() {
		b = append(b, p.insertReturn())
	}
	for _, p := range ours {
		for _, handle := range p.handles {
			b = append(b, p.deleteRule(handle))
		}
	}
	return f.atGeneration(b)
}

// FindOurs returns our own base chains; see [Find].
func FindOurs(netNS int) (ours []Part, err error) {
	conn, err := open(netNS)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	f := &Found{}
	for _, family := range model.Families {
		all, err := chainsOf(dump.NewReader(conn), family, nft.TableName)
		if err != nil {
			return nil, fmt.Errorf("list our chains: %w", socket.ExplainPermission(err, "read nftables"))
		}
		for _, chain := range baseChains(all) {
			if err := f.readChain(netNS, Part{Family: family, Table: nft.TableName, Chain: chain}); err != nil {
				return nil, err
			}
		}
	}
	return f.Parts, nil
}

// A condition appends the expressions of a rule before its verdict.
type condition func(*attr.Encoder)

// compareProtocol returns the comparison of the protocol with TCP.
func compareProtocol(op uint32) condition {
	return func(e *attr.Encoder) {
		element(e, "meta", func() {
			e.Uint32(unix.NFTA_META_DREG, unix.NFT_REG_1)
			e.Uint32(unix.NFTA_META_KEY, unix.NFT_META_L4PROTO)
		})
		compare(e, op, []byte{unix.IPPROTO_TCP})
	}
}

var onlyTCP, notTCP = compareProtocol(unix.NFT_CMP_EQ), compareProtocol(unix.NFT_CMP_NEQ)

func sourcePort(op uint32, port uint16) condition {
	return func(e *attr.Encoder) {
		element(e, "payload", func() {
			e.Uint32(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
			e.Uint32(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_TRANSPORT_HEADER)
			e.Uint32(unix.NFTA_PAYLOAD_OFFSET, 0)
			e.Uint32(unix.NFTA_PAYLOAD_LEN, 2)
		})
		compare(e, op, []byte{byte(port >> 8), byte(port)})
	}
}

func compare(e *attr.Encoder, op uint32, value []byte) {
	element(e, "cmp", func() {
		e.Uint32(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		e.Uint32(unix.NFTA_CMP_OP, op)
		e.Nested(unix.NFTA_CMP_DATA, func() { e.Data(unix.NFTA_DATA_VALUE, value) })
	})
}

// element appends an expression to a list.
func element(e *attr.Encoder, name string, attributes func()) {
	e.Nested(unix.NFTA_LIST_ELEM, func() {
		e.String(unix.NFTA_EXPR_NAME, name)
		e.Nested(unix.NFTA_EXPR_DATA, attributes)
	})
}
