package forward

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// addRemember adds the rules that remember the node of a connection and of a fragmented
// packet: nft 1.0.6 aborts on an `update` of a map with keys of more than 16 bytes, and does not
// parse "frag id" in the key of a look-up.
//
//	remember-ip           update @connections-ip { ip saddr . th sport . ip daddr . meta l4proto . th dport : meta mark }
//	remember-fragment-ip  update @fragments-ip { ip saddr . ip daddr . ip id : meta mark }
//	find-fragment-ip      meta mark set ip saddr . ip daddr . ip id map @fragments-ip
func addRemember(n *lab.Node) error {
	return n.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table := &nftables.Table{Family: nftables.TableFamilyNetdev, Name: "forward"}
		add := func(chain string, rule []expr.Any) {
			c.AddRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Table: table, Name: chain}, Exprs: rule})
		}
		for _, f := range model.Families {
			h, name := headers[f], families[f].Name
			add("remember-"+name, update("connections-"+name, h.saddr, transport(0), h.daddr, l4proto, transport(2)))
			add("remember-fragment-"+name, update("fragments-"+name, h.saddr, h.daddr, h.id))
			add("find-fragment-"+name, find("fragments-"+name, h.saddr, h.daddr, h.id))
		}
		return c.Flush()
	})
}

// field is a part of a key. load loads it into a register.
type field struct {
	length uint32
	load   func(register uint32) expr.Any
}

func payload(base expr.PayloadBase, offset, length uint32) field {
	return field{length, func(register uint32) expr.Any {
		return &expr.Payload{DestRegister: register, Base: base, Offset: offset, Len: length}
	}}
}

func network(offset, length uint32) field {
	return payload(expr.PayloadBaseNetworkHeader, offset, length)
}

// transport is a port.
func transport(offset uint32) field { return payload(expr.PayloadBaseTransportHeader, offset, 2) }

var l4proto = field{1, func(register uint32) expr.Any {
	return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}
}}

// headers are the fields of each family.
var headers = [2]struct{ saddr, daddr, id field }{
	{network(12, 4), network(16, 4), network(4, 2)},
	{network(8, 16), network(24, 16), field{4, func(register uint32) expr.Any {
		return &expr.Exthdr{DestRegister: register, Type: unix.IPPROTO_FRAGMENT, Offset: 4, Len: 4, Op: expr.ExthdrOpIpv6}
	}}},
}

// update maps a key to the mark.
func update(set string, key ...field) []expr.Any {
	all, free := load(key)
	return append(
		all, &expr.Meta{Key: expr.MetaKeyMARK, Register: free},
		&expr.Dynset{SrcRegKey: unix.NFT_REG32_00, SrcRegData: free, SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE},
	)
}

// find sets the mark to what a key is mapped to.
func find(set string, key ...field) []expr.Any {
	all, free := load(key)
	return append(
		all, &expr.Lookup{SourceRegister: unix.NFT_REG32_00, DestRegister: free, IsDestRegSet: true, SetName: set},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: free},
	)
}

// load loads a key, and returns the first register behind it.
func load(key []field) (all []expr.Any, free uint32) {
	free = unix.NFT_REG32_00
	for _, f := range key {
		all = append(all, f.load(free))
		free += (f.length + 3) / 4
	}
	return all, free
}
