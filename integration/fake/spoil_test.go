package fake

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"unique"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// compareKeys lets cmp compare types with unexported fields.
var compareKeys = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b unique.Handle[netip.Prefix]) bool { return a == b }),
}

// spoil returns a changed batch, which is often wrong, from a right one and the content of the
// tables. It makes no rules, nor elements that lead to chains whose hook forbids them: the fake
// does not evaluate expressions.
func spoil(c *rand.Rand, b nft.Batch, have nft.Tables) nft.Batch {
	b = slices.Clone(b)
	if len(b) == 0 {
		b = nft.Batch{nft.AddTable{}}
	}
	i, j := c.IntN(len(b)), c.IntN(len(b))
	switch c.IntN(10) {
	case 0:
		return slices.Delete(b, i, i+1)
	case 1:
		return slices.Insert(b, j, b[i])
	case 2:
		b[i], b[j] = b[j], b[i]
	case 3:
		return b[:i]
	case 4:
		return append(b, b...)
	case 5:
		b[i] = spoilOp(c, b[i])
	default:
		return slices.Insert(b, j, destroy(c, have)...)
	}
	return b
}

// spoilOp changes one operation.
func spoilOp(c *rand.Rand, op nft.Op) nft.Op {
	switch op := op.(type) {
	case nft.AddSet:
		op.Size = min(op.Size, uint32(1+c.IntN(4)))
		return op
	case nft.AddElements:
		if c.IntN(2) == 0 {
			return nft.DeleteElements(op)
		}
		op.Elements = slices.Clone(op.Elements)
		spoilElement(c, &op.Elements[c.IntN(len(op.Elements))])
		return op
	case nft.AddFrontends:
		return spoilOp(c, nft.AddElements{Set: op.Set, Elements: op.Elements()})
	case nft.DeleteElements:
		if c.IntN(2) == 0 {
			return nft.AddElements{Set: op.Set, Elements: op.Elements[:1]}
		}
		op.Elements = slices.Repeat(op.Elements, 2)
		return op
	case nft.DeleteChain:
		op.Name = "missing"
		return op
	case nft.FlushChain:
		op.Name = "missing"
		return op
	}
	return op
}

// spoilElement changes the value of an element.
func spoilElement(c *rand.Rand, e *nft.Element) {
	switch {
	case e.Value.Endpoint.IsValid():
		e.Value.Endpoint = netip.AddrPortFrom(e.Value.Endpoint.Addr(), uint16(c.IntN(3)))
	case e.Value.Verdict == nft.VerdictGoto && e.Value.Chain.Kind == nft.ChainReject:
		e.Value.Chain.Kind = [...]nft.ChainKind{nft.ChainNATOutput, nft.ChainFilterInput}[c.IntN(2)]
	case e.Value.Verdict == nft.VerdictGoto:
		e.Value.Chain.Kind = [...]nft.ChainKind{nft.ChainNATOutput, nft.ChainEndpoint, nft.ChainBalance, nft.ChainCluster}[c.IntN(4)]
		e.Value.Chain.N = uint32(c.IntN(4))
	}
}

// destroy returns a batch that deletes or changes existing objects, mostly ones that are in use.
func destroy(c *rand.Rand, have nft.Tables) nft.Batch {
	f := model.Families[c.IntN(2)]
	if have[f] == nil || len(have[f].Chains) == 0 || len(have[f].Sets) == 0 {
		return nft.Batch{nft.DeleteTable{Family: f}}
	}
	chain := one(c, slices.Sorted(maps.Keys(have[f].Chains)))
	name := one(c, slices.Sorted(maps.Keys(have[f].Sets)))
	id, _ := nft.SetNamed(f, name)
	set := have[f].Sets[name]
	switch c.IntN(10) {
	case 0:
		return nft.Batch{nft.DeleteTable{Family: f}}
	case 1:
		return nft.Batch{nft.DeleteChain{Family: f, Name: chain}}
	case 2:
		return nft.Batch{nft.FlushChain{Family: f, Name: chain}, nft.DeleteChain{Family: f, Name: chain}}
	case 3:
		return nft.Batch{nft.FlushChain{Family: f, Name: chain}}
	case 4:
		return nft.Batch{nft.DeleteSet{Family: f, Name: name}}
	case 5, 9:
		return nft.Batch{nft.AddSet{Set: id, Size: uint32(max(1, len(set.Elements)))}} // now it is full
	case 6:
		return nft.Batch{nft.AddTable{Family: f}, nft.AddChain{Chain: nft.ChainID{Family: f, Kind: nft.ChainEndpoint, N: 7}}}
	}
	if len(set.Elements) == 0 {
		return nil
	}
	elements := []nft.Element{one(c, set.Elements)}
	if c.IntN(2) == 0 {
		return nft.Batch{nft.DeleteElements{Set: id, Elements: elements}}
	}
	spoilElement(c, &elements[0])
	return nft.Batch{nft.AddElements{Set: id, Elements: elements}}
}

// one returns a random item.
func one[T any](c *rand.Rand, items []T) T { return items[c.IntN(len(items))] }
