package kubeproxy

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
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
		b = append(b, p.insertReturn("meta l4proto != tcp ", ofTCP(expr.CmpOpNeq)...),
			p.insertReturn(fmt.Sprintf("tcp sport != %d ", port), fromPort(expr.CmpOpNeq, port)...))
	}
	for _, p := range ours {
		match := append(ofTCP(expr.CmpOpEq), fromPort(expr.CmpOpEq, port)...)
		b = append(b, p.insertReturn(fmt.Sprintf("tcp sport %d ", port), match...))
	}
	return f.atGeneration(b)
}

// EndTrial returns the changes that undo [Found.Trial]. Read f and ours during it.
func (f *Found) EndTrial(ours []Part) nft.Batch {
	b := f.Resume()
	for _, p := range f.Suspended() {
		b = append(b, p.insertReturn(""))
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
		tables, err := tablesOf(dump.NewReader(conn), family)
		if err != nil {
			return nil, fmt.Errorf("list our chains: %w", socket.ExplainPermission(err, "read nftables"))
		}
		for _, chain := range baseChains(tables[nft.TableName]) {
			if err := f.readChain(netNS, Part{Family: family, Table: nft.TableName, Chain: chain}); err != nil {
				return nil, err
			}
		}
	}
	return f.Parts, nil
}

// ofTCP compares the protocol with TCP, fromPort the source port.
func ofTCP(op expr.CmpOp) []expr.Any {
	protocol := &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: unix.NFT_REG_1}
	return socket.Compare(protocol, nil, op, []byte{unix.IPPROTO_TCP})
}

func fromPort(op expr.CmpOp, port uint16) []expr.Any {
	return socket.Compare(&expr.Payload{Base: expr.PayloadBaseTransportHeader, Len: 2, DestRegister: unix.NFT_REG_1},
		nil, op, binary.BigEndian.AppendUint16(nil, port))
}
