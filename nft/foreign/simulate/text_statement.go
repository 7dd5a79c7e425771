package simulate

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

var operators = [...]string{"", "!= ", "< ", "<= ", "> ", ">= "} // enum nft_cmp_ops

func operator(op expr.CmpOp) string {
	if int(op) < len(operators) {
		return operators[op]
	}
	return "? "
}

func (w *ruleWriter) cmp(e *expr.Cmp) {
	v := w.take(e.Register)
	op := operator(e.Op)
	equal := e.Op == expr.CmpOpEq
	if v.mask == nil {
		if equal && v.form == formTCPFlags {
			op = "== "
		}
		w.write(v.String() + " " + op + v.form.text(e.Data))
		if v.protocol && equal {
			w.protocol, w.protocolAt = v.form.text(e.Data), len(w.words)
		}
		return
	}
	if v.form.isBits() && isZero(e.Data) {
		not := ""
		if equal {
			not = "! "
		}
		w.write(v.text, not+v.form.bits(v.mask))
		return
	}
	if p, ok := prefixOf(e.Data, v.mask); ok && v.form == formAddress {
		w.write(v.text, op+p.String())
		return
	}
	if equal {
		op = "== "
	}
	w.write(v.String(), op+v.form.bits(e.Data))
}

func (w *ruleWriter) lookup(e *expr.Lookup) {
	key := w.takeAll(e.SourceRegister)
	// Anonymous sets are printed in place, without their elements, which are not in the rule.
	set := "@" + e.SetName
	if strings.HasPrefix(e.SetName, "__map") || strings.HasPrefix(e.SetName, "__set") {
		set = "{...}"
	}
	switch {
	case !e.IsDestRegSet && e.Invert:
		w.write(key, "!= "+set)
	case !e.IsDestRegSet:
		w.write(key, set)
	case e.DestRegister == unix.NFT_REG_VERDICT:
		w.write(key, "vmap "+set)
	default:
		w.set(e.DestRegister, operand{text: key + " map " + set, fromMap: true})
	}
}

func (w *ruleWriter) dynset(e *expr.Dynset) {
	verb := "add"
	switch e.Operation {
	case unix.NFT_DYNSET_OP_UPDATE:
		verb = "update"
	case 2: // NFT_DYNSET_OP_DELETE
		verb = "delete"
	}
	data := ""
	if e.SrcRegData != 0 { // it follows the key in the registers
		data = " : " + w.takeAll(e.SrcRegData)
	}
	element := w.takeAll(e.SrcRegKey)
	if e.Timeout > 0 {
		element += " timeout " + duration(e.Timeout)
	}
	for _, x := range e.Exprs {
		switch x.(type) {
		case *expr.Counter:
			element += " counter"
		case *expr.Limit:
			element += " (limit)"
		default:
			element += " (unknown)"
		}
	}
	w.write(verb, "@"+e.SetName, "{ "+element+data+" }")
}

// duration returns a time as nft prints it: "3h", "1m30s", "1d".
func duration(d time.Duration) string {
	var s strings.Builder
	for _, unit := range [...]struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&s, "%d%s", n, unit.name)
			d %= unit.size
		}
	}
	return s.String()
}

// decision returns a verdict without its argument, which is an errno or the number of a queue.
func decision(v *expr.Verdict) expr.VerdictKind {
	const verdicts = 0xff // NF_VERDICT_MASK
	if v.Kind < 0 {
		return v.Kind
	}
	return v.Kind & verdicts
}

// verdictText returns a verdict in the syntax of nft.
func verdictText(v *expr.Verdict) string {
	switch decision(v) {
	case expr.VerdictContinue:
		return "continue"
	case expr.VerdictBreak:
		return "break"
	case expr.VerdictJump:
		return "jump " + v.Chain
	case expr.VerdictGoto:
		return "goto " + v.Chain
	case expr.VerdictReturn:
		return "return"
	case expr.VerdictDrop:
		return "drop"
	case expr.VerdictAccept:
		return "accept"
	case expr.VerdictStolen:
		return "stolen"
	case expr.VerdictQueue:
		return fmt.Sprintf("queue to %d", uint32(v.Kind)>>16)
	}
	return fmt.Sprintf("verdict %d", v.Kind)
}

func (w *ruleWriter) nat(e *expr.NAT) {
	word := "snat"
	if e.Type == expr.NATTypeDestNAT {
		word = "dnat"
	}
	var to, port operand
	if e.RegAddrMin != 0 {
		to = w.take(e.RegAddrMin)
	}
	if e.RegProtoMin != 0 && !to.fromMap {
		port = w.take(e.RegProtoMin)
	}
	if to.fromMap || w.family == "inet" {
		word += " " + nameOf(map[uint32]string{unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6"}, e.Family)
	}
	target := to.String()
	if a, ok := netip.AddrFromSlice(to.data); ok && len(port.data) == 2 {
		target = netip.AddrPortFrom(a, uint16(port.data[0])<<8|uint16(port.data[1])).String()
	} else if port.data != nil || port.text != "" {
		target += ":" + port.String()
	}
	w.write(word, "to", target)
	w.natFlags(e.Random, e.FullyRandom, e.Persistent)
}

// natFlags writes how ports are selected.
func (w *ruleWriter) natFlags(random, fully, persistent bool) {
	for i, set := range [...]bool{random, fully, persistent} {
		if set {
			w.write([...]string{"random", "fully-random", "persistent"}[i])
		}
	}
}

// reject is written without the code of an answer by ICMP.
func (w *ruleWriter) reject(e *expr.Reject) {
	w.write("reject")
	if e.Type == unix.NFT_REJECT_TCP_RST {
		w.write("with tcp reset")
	}
}

func (w *ruleWriter) queue(e *expr.Queue) { w.write("queue to", strconv.Itoa(int(e.Num))) }

func (w *ruleWriter) log(e *expr.Log) {
	w.write("log")
	if len(e.Data) > 0 {
		w.write("prefix", strconv.Quote(string(e.Data)))
	}
}

func (w *ruleWriter) objref(e *expr.Objref) {
	kinds := map[uint32]string{1: "counter", 2: "quota", 4: "limit"}
	w.write(nameOf(kinds, uint32(e.Type)), "name", strconv.Quote(e.Name))
}

func (w *ruleWriter) inRange(e *expr.Range) {
	v := w.take(e.Register)
	w.write(v.String(), operator(e.Op)+v.form.text(e.FromData)+"-"+v.form.text(e.ToData))
}

func (w *ruleWriter) bitwise(e *expr.Bitwise) {
	v := w.take(e.SourceRegister)
	v.mask, v.xor = e.Mask, e.Xor
	w.set(e.DestRegister, v)
}

// byteorder does not change the meaning of a value.
func (w *ruleWriter) byteorder(e *expr.Byteorder) { w.set(e.DestRegister, w.take(e.SourceRegister)) }

func (w *ruleWriter) immediate(e *expr.Immediate) {
	w.set(e.Register, operand{form: guessForm(e.Data), data: e.Data, length: uint32(len(e.Data))})
}

func (w *ruleWriter) verdict(e *expr.Verdict) { w.write(verdictText(e)) }

func (w *ruleWriter) masquerade(e *expr.Masq) {
	w.write("masquerade")
	w.natFlags(e.Random, e.FullyRandom, e.Persistent)
}

func (w *ruleWriter) redirect(e *expr.Redir) {
	w.write("redirect")
	if e.RegisterProtoMin != 0 {
		w.write("to :" + w.take(e.RegisterProtoMin).String())
	}
}
