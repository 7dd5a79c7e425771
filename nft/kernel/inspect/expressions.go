package inspect

import (
	"errors"
	"fmt"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/simulate"
)

func decodeRule(family uint8, m netlink.Message) (rule simulate.Rule, err error) {
	decode := func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_RULE_HANDLE:
			rule.Handle = ad.Uint64()
		case unix.NFTA_RULE_EXPRESSIONS:
			err = errors.Join(err, nested(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
				e, decodeErr := decodeExpression(family, ad.Bytes())
				rule.Expressions = append(rule.Expressions, e)
				err = errors.Join(err, decodeErr)
			}))
		}
	}
	return rule, errors.Join(attributes(m, decode), err)
}

// decodeExpression reads an expression; one that would be understood in part only is
// [simulate.UnknownExpression].
func decodeExpression(family uint8, b []byte) (any, error) {
	name, data := "", []byte(nil)
	err := nested(b, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_EXPR_NAME:
			name = ad.String()
		case unix.NFTA_EXPR_DATA:
			data = ad.Bytes()
		}
	})
	if err != nil {
		return nil, err
	}
	shape, ok := expressionFormats[name]
	if !ok {
		return simulate.UnknownExpression{Name: foreignName(name, data)}, nil
	}
	if what, err := shape.hasMore(data); what || err != nil {
		return simulate.UnknownExpression{Name: name + " of a kind that is not understood"}, err
	}
	e := shape.make()
	if err := expr.Unmarshal(family, data, e); err != nil {
		return nil, fmt.Errorf("decode expression %s: %w", name, err)
	}
	if i, ok := e.(*expr.Immediate); ok && i.Register == unix.NFT_REG_VERDICT {
		v, err := immediateVerdict(data)
		return v, err
	}
	return e, nil
}

// immediateVerdict reads an immediate that is a verdict.
func immediateVerdict(data []byte) (*expr.Verdict, error) {
	var value element
	var inner error
	err := nested(data, func(ad *netlink.AttributeDecoder) {
		if ad.Type() == unix.NFTA_IMMEDIATE_DATA {
			inner = errors.Join(inner, nested(ad.Bytes(), func(ad *netlink.AttributeDecoder) { inner = errors.Join(inner, value.decodeData(ad)) }))
		}
	})
	if value.Verdict == nil {
		inner = errors.Join(inner, errors.New("a verdict without a code"))
	}
	return value.Verdict, errors.Join(err, inner)
}

// foreignName is the name of an expression that is not understood: of those that
// iptables wrote, the extension's.
func foreignName(name string, data []byte) string {
	if name != "match" && name != "target" {
		return name
	}
	extension := ""
	err := nested(data, func(ad *netlink.AttributeDecoder) {
		if ad.Type() == unix.NFTA_MATCH_NAME { // the same as NFTA_TARGET_NAME
			extension = ad.String()
		}
	})
	if err != nil {
		return name
	}
	return "xt " + name + " " + extension
}

// expressionFormat is how an expression is decoded, and what of it the decoder understands.
type expressionFormat struct {
	make func() expr.Any
	// attributes is a bit for each attribute that the library reads. zero are those
	// that it does not read, but which mean nothing if they are zero, and needed those
	// without which it means something else.
	attributes, zero, needed uint32
}

// hasMore reports whether the expression has more to it than is understood.
func (s expressionFormat) hasMore(data []byte) (unknown bool, err error) {
	var seen uint32
	err = nested(data, func(ad *netlink.AttributeDecoder) {
		bit := uint32(1) << ad.Type()
		seen |= bit
		switch {
		case s.zero&bit != 0:
			for _, b := range ad.Bytes() {
				unknown = unknown || b != 0
			}
		case s.attributes&bit == 0:
			unknown = true
		}
	})
	return unknown || s.needed&^seen != 0, err
}

func bits(from, to int) (out uint32) {
	for i := from; i <= to; i++ {
		out |= 1 << i
	}
	return out
}

// expressionFormats are the expressions that are understood. Numbers of attributes are those of
// include/uapi/linux/netfilter/nf_tables.h; the last one is padding where there is
// any.
var expressionFormats = map[string]expressionFormat{
	"payload":      {make: func() expr.Any { return &expr.Payload{} }, attributes: bits(1, 8)},
	"meta":         {make: func() expr.Any { return &expr.Meta{} }, attributes: bits(1, 3)},
	"ct":           {make: func() expr.Any { return &expr.Ct{} }, attributes: bits(1, 4)},
	"cmp":          {make: func() expr.Any { return &expr.Cmp{} }, attributes: bits(1, 3)},
	"range":        {make: func() expr.Any { return &expr.Range{} }, attributes: bits(1, 4)},
	"bitwise":      {make: func() expr.Any { return &expr.Bitwise{} }, attributes: bits(1, 5), zero: bits(6, 6), needed: bits(4, 5)},
	"lookup":       {make: func() expr.Any { return &expr.Lookup{} }, attributes: bits(1, 5)},
	"immediate":    {make: func() expr.Any { return &expr.Immediate{} }, attributes: bits(1, 2)},
	"fib":          {make: func() expr.Any { return &expr.Fib{} }, attributes: bits(1, 3)},
	"numgen":       {make: func() expr.Any { return &expr.Numgen{} }, attributes: bits(1, 4)},
	"hash":         {make: func() expr.Any { return &expr.Hash{} }, attributes: bits(1, 7), needed: bits(5, 5)}, // a seed of its own the kernel does not tell
	"dynset":       {make: func() expr.Any { return &expr.Dynset{} }, attributes: bits(1, 10)},
	"counter":      {make: func() expr.Any { return &expr.Counter{} }, attributes: bits(1, 3)},
	"objref":       {make: func() expr.Any { return &expr.Objref{} }, attributes: bits(1, 2)},
	"nat":          {make: func() expr.Any { return &expr.NAT{} }, attributes: bits(1, 7)},
	"masq":         {make: func() expr.Any { return &expr.Masq{} }, attributes: bits(1, 3)},
	"redir":        {make: func() expr.Any { return &expr.Redir{} }, attributes: bits(1, 3)},
	"reject":       {make: func() expr.Any { return &expr.Reject{} }, attributes: bits(1, 2)},
	"log":          {make: func() expr.Any { return &expr.Log{} }, attributes: bits(1, 6)},
	"exthdr":       {make: func() expr.Any { return &expr.Exthdr{} }, attributes: bits(1, 7)},
	"notrack":      {make: func() expr.Any { return &expr.Notrack{} }, attributes: bits(1, 1)},
	"flow_offload": {make: func() expr.Any { return &expr.FlowOffload{} }, attributes: bits(1, 1)},
}
