package simulate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// A kind is a kind of expressions of nf_tables: how they are decoded, run and printed.
type kind struct {
	name  string // the kernel's
	value reflect.Type
	// attributes has a bit for each attribute that google/nftables decodes. zero are those that
	// it does not decode, but which mean nothing if they are zero; needed are those without
	// which the expression means something else.
	attributes, zero, needed uint32
	// decode decodes what the library does not, or returns nil.
	decode func(d *attr.Decoder, data []byte) any
	run    func(*walk, any) (verdict, error) // nil if the expression has no effect here
	text   func(*ruleWriter, any)            // nil for the name in parentheses
}

// of returns a kind of which the library decodes the attributes up to one.
func of[T any](
	name string, last int, run func(*walk, *T) (verdict, error), text func(*ruleWriter, *T),
) *kind {
	k := &kind{name: name, value: reflect.TypeFor[*T](), attributes: attributes(1, last)}
	if run != nil {
		k.run = func(w *walk, e any) (verdict, error) { return run(w, e.(*T)) }
	}
	if text != nil {
		k.text = func(w *ruleWriter, e any) { text(w, e.(*T)) }
	}
	return k
}

func (k *kind) decodedBy(decode func(d *attr.Decoder, data []byte) any) *kind {
	k.decode = decode
	return k
}

func attributes(from, to int) (out uint32) {
	for i := from; i <= to; i++ {
		out |= 1 << i
	}
	return out
}

// kinds are the expressions that are understood. The numbers of their attributes are from
// include/uapi/linux/netfilter/nf_tables.h, with the padding at the end.
var kinds = []*kind{
	of("payload", 8, (*walk).payload, (*ruleWriter).payload),
	of("meta", 3, (*walk).meta, (*ruleWriter).meta),
	of("ct", 4, (*walk).ct, (*ruleWriter).ct),
	of("cmp", 3, (*walk).compare, (*ruleWriter).cmp),
	of("range", 4, (*walk).inRange, (*ruleWriter).inRange),
	bitwise,
	of("byteorder", 0, (*walk).byteorder, (*ruleWriter).byteorder).decodedBy(decodeByteorder),
	of("immediate", 2, (*walk).immediate, (*ruleWriter).immediate).decodedBy(decodeImmediate),
	of("", 0, (*walk).verdict, (*ruleWriter).verdict),
	of("lookup", 5, (*walk).lookup, (*ruleWriter).lookup),
	of("dynset", 10, (*walk).dynset, (*ruleWriter).dynset),
	of("numgen", 4, (*walk).numgen, (*ruleWriter).numgen),
	of("hash", 7, (*walk).hash, (*ruleWriter).hash),
	of[expr.Socket]("socket", 3, (*walk).socket, nil),
	of("fib", 3, (*walk).fib, (*ruleWriter).fib),
	of[expr.Exthdr]("exthdr", 7, (*walk).exthdr, nil),
	of("nat", 7, (*walk).nat, (*ruleWriter).nat),
	of("masq", 3, func(w *walk, _ *expr.Masq) (verdict, error) { return w.masquerade() }, (*ruleWriter).masquerade),
	of("redir", 3, (*walk).redirect, (*ruleWriter).redirect),
	of("reject", 2, (*walk).reject, (*ruleWriter).reject),
	of("queue", 3, func(w *walk, e *expr.Queue) (verdict, error) { return w.queue(e.Num) }, (*ruleWriter).queue),
	of("notrack", 1, func(w *walk, _ *expr.Notrack) (verdict, error) { return w.notrack() },
		func(w *ruleWriter, _ *expr.Notrack) { w.write("notrack") }),
	of("objref", 2, (*walk).objref, (*ruleWriter).objref),
	of("counter", 3, nil, func(w *ruleWriter, _ *expr.Counter) { w.write("counter") }),
	of("log", 6, nil, (*ruleWriter).log),
	of[expr.FlowOffload]("flow_offload", 1, nil, nil),
}

// bitwise is understood only with a mask, which the operation zero means.
var bitwise = func() *kind {
	const operation = 6 // NFTA_BITWISE_OP, which golang.org/x/sys lacks
	k := of("bitwise", 5, (*walk).bitwise, (*ruleWriter).bitwise)
	k.zero, k.needed = attributes(operation, operation), attributes(unix.NFTA_BITWISE_MASK, unix.NFTA_BITWISE_XOR)
	return k
}()

var kindsByName, kindsByType = func() (map[string]*kind, map[reflect.Type]*kind) {
	byName, byType := map[string]*kind{}, map[reflect.Type]*kind{}
	for _, k := range kinds {
		byType[k.value] = k
		if k.name != "" {
			byName[k.name] = k
		}
	}
	return byName, byType
}()

// NoEffect is an expression that neither decides nor changes anything: dup sends a copy of the
// packet.
type NoEffect struct{ Name string }

// DecodeExpression decodes an expression of a rule. One that would be understood in part only is
// an [UnknownExpression].
func DecodeExpression(d *attr.Decoder, family uint8, b []byte) any {
	name, data := attr.String(d.Find(b, unix.NFTA_EXPR_NAME)), d.Find(b, unix.NFTA_EXPR_DATA)
	k := kindsByName[name]
	switch {
	case name == "match" || name == "target":
		return decodeExtension(d, name, data)
	case name == "last" || name == "dup":
		return NoEffect{name}
	case name == "limit":
		return UnknownExpression{name, limitText(family, data)}
	case k == nil:
		return UnknownExpression{Name: name}
	case k.decode != nil:
		if e := k.decode(d, data); e != nil {
			return e
		}
	}
	value := reflect.New(k.value.Elem()).Interface()
	if k.hasMore(d, data) || expr.Unmarshal(family, data, value.(expr.Any)) != nil {
		return UnknownExpression{name + partlyUnderstood, "(" + name + ")"}
	}
	if h, ok := value.(*expr.Hash); ok && d.Find(data, unix.NFTA_HASH_SEED) == nil {
		h.Type = expr.HashTypeSym // the kernel has chosen a seed, which it does not report
	}
	return value
}

// hasMore reports whether the expression means more than the library decodes.
func (k *kind) hasMore(d *attr.Decoder, data []byte) (more bool) {
	var seen uint32
	for number, value := range d.Attributes(data) {
		bit := uint32(1) << number
		seen |= bit
		more = more || k.zero&bit == 0 && k.attributes&bit == 0 || k.zero&bit != 0 && !isZero(value)
	}
	return more || k.needed&^seen != 0
}

// decodeExtension decodes a match or target of iptables. The attributes of both have the same
// numbers.
func decodeExtension(d *attr.Decoder, kind string, data []byte) any {
	name := attr.String(d.Find(data, unix.NFTA_MATCH_NAME))
	b := info{data: d.Find(data, unix.NFTA_MATCH_INFO)}
	if revision := d.Find(data, unix.NFTA_MATCH_REV); revision != nil {
		b.revision = d.Uint32(revision)
	}
	if x, ok := extensionOf(name, b); ok {
		return x
	}
	return UnknownExpression{"xt " + kind + " " + name, map[string]string{"match": "-m ", "target": "-j "}[kind] + name}
}

// An UnknownExpression is an expression that is not understood, by the kernel's name for it
// and the part that is not, with how it is printed.
type UnknownExpression struct{ Name, Text string }

// partlyUnderstood is behind the name of an expression that has more than is understood.
const partlyUnderstood = " of a kind that is not understood"

// isMatchOnly reports whether the expression only computes or compares something: its
// effect depends on the rest of its rule. Connlabel can set a label, too.
func (u UnknownExpression) isMatchOnly() bool {
	name, _, _ := strings.Cut(u.Name, partlyUnderstood)
	switch name {
	case "bitwise", "connlimit", "hash", "inner", "limit", "lookup", "objref", "osf", "quota", "rt", "socket",
		"tunnel", "xfrm":
		return true
	}
	return strings.HasPrefix(u.Name, matchPrefix) && u.Name != matchPrefix+"connlabel"
}

const matchPrefix = "xt match "

// effects reports whether an expression only computes or compares something, so its effect
// depends on the rest of its rule, and whether it may give a final verdict or change something that
// other rules match. Counting and logging are neither.
func effects(e any) (computes, acts bool) {
	switch e := e.(type) {
	case *expr.Payload:
		return e.OperationType == expr.PayloadLoad, e.OperationType == expr.PayloadWrite
	case *expr.Meta:
		settable := e.Key == expr.MetaKeyMARK || e.Key == expr.MetaKeyPKTTYPE
		return !e.SourceRegister, e.SourceRegister && settable
	case *expr.Ct:
		settable := e.Key == expr.CtKeyZONE || e.Key == expr.CtKeyMARK || e.Key == expr.CtKeyLABELS
		return !e.SourceRegister, e.SourceRegister && settable
	case *expr.Lookup:
		decides := e.IsDestRegSet && e.DestRegister == unix.NFT_REG_VERDICT
		return !decides, decides
	case *expr.Dynset: // a later rule may find what it adds
		return true, true
	case Extension:
		return e.target == nil, e.hasEffect()
	case UnknownExpression:
		return e.isMatchOnly(), !e.isMatchOnly()
	case *expr.Counter, *expr.Log, *expr.FlowOffload, *expr.Immediate, NoEffect:
		return false, false
	case *expr.Verdict, *expr.NAT, *expr.Masq, *expr.Redir, *expr.Reject, *expr.Notrack, *expr.Queue:
		return false, true
	}
	return true, false // also objref: limit, connlimit, quota
}

// hasEffect reports whether a rule can have an effect, now or on a later rule.
func hasEffect(r Rule) bool {
	return slices.ContainsFunc(r.Expressions, func(e any) bool {
		_, acts := effects(e)
		return acts
	})
}

func isPick(e any) bool {
	switch e := e.(type) {
	case *expr.Numgen, *expr.Hash:
		return true
	case Extension:
		return e.picks
	}
	return false
}

func decodeByteorder(d *attr.Decoder, data []byte) any {
	number := func(kind uint16) (n uint32) {
		if b := d.Find(data, kind); b != nil {
			n = d.Uint32(b)
		}
		return n
	}
	return &expr.Byteorder{
		SourceRegister: number(unix.NFTA_BYTEORDER_SREG), DestRegister: number(unix.NFTA_BYTEORDER_DREG),
		Len: number(unix.NFTA_BYTEORDER_LEN), Size: number(unix.NFTA_BYTEORDER_SIZE),
	}
}

func decodeImmediate(d *attr.Decoder, data []byte) any {
	if v := d.Find(d.Find(data, unix.NFTA_IMMEDIATE_DATA), unix.NFTA_DATA_VERDICT); v != nil {
		return DecodeVerdict(d, v)
	}
	return nil
}

// DecodeVerdict decodes the attributes of a verdict.
func DecodeVerdict(d *attr.Decoder, b []byte) *expr.Verdict {
	v := &expr.Verdict{}
	if code := d.Find(b, unix.NFTA_VERDICT_CODE); code != nil {
		v.Kind = expr.VerdictKind(int32(d.Uint32(code)))
	}
	v.Chain = attr.String(d.Find(b, unix.NFTA_VERDICT_CHAIN))
	return v
}

// limitText returns a limit, whose effect is not known in advance, as nft prints it.
func limitText(family uint8, data []byte) string {
	var l expr.Limit
	if expr.Unmarshal(family, data, &l) != nil {
		return "(limit)"
	}
	over, unit := "", "packets"
	if l.Type == expr.LimitTypePktBytes {
		unit = "bytes"
	}
	if l.Over {
		over = "over "
	}
	per, known := map[expr.LimitTime]string{
		expr.LimitTimeSecond: "second", expr.LimitTimeMinute: "minute", expr.LimitTimeHour: "hour",
		expr.LimitTimeDay: "day", expr.LimitTimeWeek: "week",
	}[l.Unit]
	if !known {
		per = fmt.Sprintf("%d s", l.Unit)
	}
	return fmt.Sprintf("limit rate %s%d/%s burst %d %s", over, l.Rate, per, l.Burst, unit)
}
