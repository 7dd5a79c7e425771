package dump

import (
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/simulate"
	"kube-vmap/nft/simulate/xt"
)

func decodeRule(d *attr.Decoder, m message) (rule Rule) {
	rule.Chain.Table.Family = families[m.family]
	for kind, value := range d.Attributes(m.attributes) {
		switch kind {
		case unix.NFTA_RULE_TABLE:
			rule.Chain.Table.Name = attr.String(value)
		case unix.NFTA_RULE_CHAIN:
			rule.Chain.Name = attr.String(value)
		case unix.NFTA_RULE_HANDLE:
			rule.Handle = d.Uint64(value)
		case unix.NFTA_RULE_USERDATA:
			rule.Remark = attr.String(attr.Userdata(value, attr.CommentTag))
		case unix.NFTA_RULE_EXPRESSIONS:
			for _, b := range d.Attributes(value) {
				e, name := decodeExpression(d, m.family, b)
				if name != "" && rule.Names == nil {
					rule.Names = make([]string, len(rule.Expressions), len(rule.Expressions)+1)
				}
				rule.Expressions = append(rule.Expressions, e)
				if rule.Names != nil {
					rule.Names = append(rule.Names, name)
				}
			}
		}
	}
	return rule
}

// decodeExpression decodes an expression, and returns how [simulate.Rule.Text] prints it, unless
// that knows. One that would be understood in part only is a [simulate.UnknownExpression].
func decodeExpression(d *attr.Decoder, family uint8, b []byte) (e any, text string) {
	name, data := attr.String(d.Find(b, unix.NFTA_EXPR_NAME)), d.Find(b, unix.NFTA_EXPR_DATA)
	switch {
	case name == "match":
		return decodeExtension(d, name, "-m ", family, data, xt.DecodeMatch)
	case name == "target":
		return decodeExtension(d, name, "-j ", family, data, xt.DecodeTarget)
	case withoutEffect[name]:
		return xt.NoEffect{Name: name}, "(" + name + ")"
	case name == "limit":
		return simulate.UnknownExpression{Name: name}, limitText(d, data)
	case ownFormats[name] != nil:
		if e := ownFormats[name](d, data); e != nil {
			return e, withoutText[name]
		}
	}
	format, ok := expressionFormats[name]
	if !ok {
		return simulate.UnknownExpression{Name: name}, "(" + name + ")"
	}
	if format.hasMore(d, data) {
		return simulate.UnknownExpression{Name: name + simulate.PartlyUnderstood}, "(" + name + ")"
	}
	if name == "immediate" {
		if verdict := d.Find(d.Find(data, unix.NFTA_IMMEDIATE_DATA), unix.NFTA_DATA_VERDICT); verdict != nil {
			return decodeVerdict(d, verdict), ""
		}
	}
	value := format.make()
	if err := expr.Unmarshal(family, data, value); err != nil {
		return simulate.UnknownExpression{Name: name + simulate.PartlyUnderstood}, "(" + name + ")"
	}
	if h, ok := value.(*expr.Hash); ok && d.Find(data, unix.NFTA_HASH_SEED) == nil {
		h.Type = expr.HashTypeSym // the kernel has chosen a seed, which it does not report
	}
	return value, withoutText[name]
}

// withoutText are the expressions that [simulate.Rule.Text] does not know.
var withoutText = map[string]string{
	"exthdr": "(exthdr)", "socket": "(socket)", "flow_offload": "(flow_offload)", "tproxy": "(tproxy)",
}

// decodeExtension decodes a match or target of iptables. The attributes of both have the same
// numbers.
func decodeExtension(
	d *attr.Decoder, kind, option string, family uint8, data []byte,
	decode func(name string, revision uint32, v6 bool, data []byte) (any, bool),
) (e any, text string) {
	name := attr.String(d.Find(data, unix.NFTA_MATCH_NAME))
	var revision uint32
	if b := d.Find(data, unix.NFTA_MATCH_REV); b != nil {
		revision = d.Uint32(b)
	}
	if e, ok := decode(name, revision, family == unix.NFPROTO_IPV6, d.Find(data, unix.NFTA_MATCH_INFO)); ok {
		if _, isComment := e.(xt.Comment); isComment {
			option, name = "", ""
		}
		return e, option + name
	}
	return simulate.UnknownExpression{Name: "xt " + kind + " " + name}, option + name
}

// expressionFormat is how an expression is decoded, and which attributes of it are.
type expressionFormat struct {
	make func() expr.Any
	// attributes has a bit for each attribute that the library decodes. zero are those that
	// it does not decode, but which mean nothing if they are zero; needed are those without
	// which the expression means something else.
	attributes, zero, needed uint32
}

// hasMore reports whether the expression means more than the library decodes.
func (f expressionFormat) hasMore(d *attr.Decoder, data []byte) (more bool) {
	var seen uint32
	for kind, value := range d.Attributes(data) {
		bit := uint32(1) << kind
		seen |= bit
		switch {
		case f.zero&bit != 0:
			for _, b := range value {
				more = more || b != 0
			}
		case f.attributes&bit == 0:
			more = true
		}
	}
	return more || f.needed&^seen != 0
}

// bits returns a mask with the bits of a range of attributes.
func bits(from, to int) (out uint32) {
	for i := from; i <= to; i++ {
		out |= 1 << i
	}
	return out
}

// expressionFormats are the expressions that are understood, by name. The numbers of their
// attributes are those of include/uapi/linux/netfilter/nf_tables.h, with the padding at the
// end.
var expressionFormats = map[string]expressionFormat{
	"payload": {make: func() expr.Any { return &expr.Payload{} }, attributes: bits(1, 8)},
	"meta":    {make: func() expr.Any { return &expr.Meta{} }, attributes: bits(1, 3)},
	"ct":      {make: func() expr.Any { return &expr.Ct{} }, attributes: bits(1, 4)},
	"cmp":     {make: func() expr.Any { return &expr.Cmp{} }, attributes: bits(1, 3)},
	"range":   {make: func() expr.Any { return &expr.Range{} }, attributes: bits(1, 4)},
	"bitwise": {
		make: func() expr.Any { return &expr.Bitwise{} }, attributes: bits(1, 5), zero: bits(6, 6),
		needed: bits(4, 5),
	},
	"lookup":       {make: func() expr.Any { return &expr.Lookup{} }, attributes: bits(1, 5)},
	"immediate":    {make: func() expr.Any { return &expr.Immediate{} }, attributes: bits(1, 2)},
	"fib":          {make: func() expr.Any { return &expr.Fib{} }, attributes: bits(1, 3)},
	"numgen":       {make: func() expr.Any { return &expr.Numgen{} }, attributes: bits(1, 4)},
	"hash":         {make: func() expr.Any { return &expr.Hash{} }, attributes: bits(1, 7)},
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
	"socket":       {make: func() expr.Any { return &expr.Socket{} }, attributes: bits(1, 3)},
	"queue":        {make: func() expr.Any { return &expr.Queue{} }, attributes: bits(1, 3)},
	"flow_offload": {make: func() expr.Any { return &expr.FlowOffload{} }, attributes: bits(1, 1)},
}
