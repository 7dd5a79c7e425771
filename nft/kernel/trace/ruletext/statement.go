package ruletext

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// expression writes what an expression does.
func (w *writer) expression(b []byte) error {
	outer, err := parse(b)
	if err != nil {
		return err
	}
	name := outer.text(unix.NFTA_EXPR_NAME)
	write := w.statements[name]
	if write == nil {
		w.write("(" + name + ")")
		return nil
	}
	a, err := parse(outer[unix.NFTA_EXPR_DATA])
	if err != nil {
		return err
	}
	write(w, a)
	return nil
}

// statements returns the functions that write expressions, by the kernel's name of the
// expression. It is not a variable, because dynset writes expressions, too.
func statements() map[string]func(*writer, attributes) {
	return map[string]func(*writer, attributes){
		"meta": (*writer).meta, "ct": (*writer).ct, "payload": (*writer).payload, "fib": (*writer).fib,
		"numgen": (*writer).numgen, "hash": (*writer).hash, "cmp": (*writer).cmp, "range": (*writer).inRange,
		"bitwise": (*writer).bitwise, "byteorder": (*writer).byteorder, "lookup": (*writer).lookup, "dynset": (*writer).dynset,
		"immediate": (*writer).immediate, "nat": (*writer).nat, "masq": (*writer).masquerade, "redir": (*writer).redirect,
		"reject": (*writer).reject, "queue": (*writer).queue, "counter": (*writer).counter, "notrack": (*writer).notrack,
		"limit": (*writer).limit, "log": (*writer).log, "objref": (*writer).object,
		"match": (*writer).xtMatch, "target": (*writer).xtTarget,
	}
}

func (w *writer) notrack(attributes) { w.write("notrack") }

func (w *writer) queue(a attributes) {
	w.write("queue", "to", strconv.Itoa(int(a.number(unix.NFTA_QUEUE_NUM))))
}

// immediate writes a verdict, or loads a constant.
func (w *writer) immediate(a attributes) {
	if a.number(unix.NFTA_IMMEDIATE_DREG) != unix.NFT_REG_VERDICT {
		b := a.data(unix.NFTA_IMMEDIATE_DATA)
		w.setRegister(a, unix.NFTA_IMMEDIATE_DREG, value{kind: guessKind(b), data: b, length: uint32(len(b))})
		return
	}
	inner, _ := parse(a[unix.NFTA_IMMEDIATE_DATA]) // a malformed one has no code and is printed as drop
	verdict, _ := parse(inner[unix.NFTA_DATA_VERDICT])
	w.write(VerdictText(int32(verdict.number(unix.NFTA_VERDICT_CODE)), verdict.text(unix.NFTA_VERDICT_CHAIN)))
}

// VerdictText returns a verdict in the syntax of nft, given its code and the chain that it
// jumps or goes to.
func VerdictText(code int32, chain string) string {
	switch code {
	case unix.NFT_CONTINUE:
		return "continue"
	case unix.NFT_BREAK:
		return "break"
	case unix.NFT_JUMP:
		return "jump " + chain
	case unix.NFT_GOTO:
		return "goto " + chain
	case unix.NFT_RETURN:
		return "return"
	}
	if code >= 0 {
		switch code & 0xff { // NF_VERDICT_MASK
		case 0: // NF_DROP, maybe with an errno
			return "drop"
		case 1: // NF_ACCEPT
			return "accept"
		case 2: // NF_STOLEN
			return "stolen"
		case 3: // NF_QUEUE, with the number of the queue
			return fmt.Sprintf("queue to %d", uint32(code)>>16)
		}
	}
	return fmt.Sprintf("verdict %d", code)
}

func (w *writer) nat(a attributes) {
	word := "snat"
	if a.number(unix.NFTA_NAT_TYPE) == unix.NFT_NAT_DNAT {
		word = "dnat"
	}
	var to, port value
	if a.has(unix.NFTA_NAT_REG_ADDR_MIN) {
		to = w.takeRegister(a, unix.NFTA_NAT_REG_ADDR_MIN)
	}
	if a.has(unix.NFTA_NAT_REG_PROTO_MIN) && !to.fromMap {
		port = w.takeRegister(a, unix.NFTA_NAT_REG_PROTO_MIN)
	}
	if to.fromMap || w.family == unix.NFPROTO_INET {
		word += " " + nameOf(natFamilies, uint32(a.number(unix.NFTA_NAT_FAMILY)))
	}
	w.write(word, "to", w.endpoint(to, port))
	w.natFlags(a.number(unix.NFTA_NAT_FLAGS))
}

var natFamilies = map[uint32]string{unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6"}

// endpoint returns address and port, each if there is one.
func (w *writer) endpoint(to, port value) string {
	a, isAddress := netip.AddrFromSlice(to.data)
	number, _ := strconv.ParseUint(kindNumber.text(port.data), 10, 16)
	switch {
	case isAddress && len(port.data) == 2:
		return netip.AddrPortFrom(a, uint16(number)).String()
	case port.data != nil || port.text != "":
		return w.valueText(to) + ":" + w.valueText(port)
	}
	return w.valueText(to)
}

// natFlags writes how ports are selected (NF_NAT_RANGE_*,
// include/uapi/linux/netfilter/nf_nat.h).
func (w *writer) natFlags(n uint64) {
	for _, flag := range []struct {
		bit  uint64
		name string
	}{{1 << 2, "random"}, {1 << 4, "fully-random"}, {1 << 3, "persistent"}} {
		if n&flag.bit != 0 {
			w.write(flag.name)
		}
	}
}

func (w *writer) masquerade(a attributes) {
	w.write("masquerade")
	w.natFlags(a.number(unix.NFTA_MASQ_FLAGS))
}

func (w *writer) redirect(a attributes) {
	w.write("redirect")
	if a.has(unix.NFTA_REDIR_REG_PROTO_MIN) {
		w.write("to :" + w.valueText(w.takeRegister(a, unix.NFTA_REDIR_REG_PROTO_MIN)))
	}
}

// reject is written without its default code, as in nft.
func (w *writer) reject(a attributes) {
	w.rejects = true
	code := uint32(a.number(unix.NFTA_REJECT_ICMP_CODE))
	switch {
	case a.number(unix.NFTA_REJECT_TYPE) == unix.NFT_REJECT_TCP_RST:
		w.write("reject with tcp reset")
	case a.number(unix.NFTA_REJECT_TYPE) == unix.NFT_REJECT_ICMPX_UNREACH && code == unix.NFT_REJECT_ICMPX_PORT_UNREACH,
		w.family == unix.NFPROTO_IPV4 && code == 3, w.family == unix.NFPROTO_IPV6 && code == 4:
		w.write("reject")
	case a.number(unix.NFTA_REJECT_TYPE) == unix.NFT_REJECT_ICMPX_UNREACH:
		w.write("reject with icmpx", nameOf(icmpx, code))
	case w.family == unix.NFPROTO_IPV6:
		w.write("reject with icmpv6", nameOf(icmp6, code))
	default:
		w.write("reject with icmp", nameOf(icmp, code))
	}
}

var icmpx = map[uint32]string{0: "no-route", 1: "port-unreachable", 2: "host-unreachable", 3: "admin-prohibited"}

var icmp = map[uint32]string{
	0: "net-unreachable", 1: "host-unreachable", 2: "prot-unreachable", 3: "port-unreachable",
	9: "net-prohibited", 10: "host-prohibited", 13: "admin-prohibited",
}

var icmp6 = map[uint32]string{0: "no-route", 1: "admin-prohibited", 3: "addr-unreachable", 4: "port-unreachable"}

func (w *writer) counter(a attributes) {
	w.packets += a.number(unix.NFTA_COUNTER_PACKETS)
	w.write("counter")
}

func (w *writer) limit(a attributes) {
	over, unit := "", "packets"
	if a.number(unix.NFTA_LIMIT_FLAGS)&unix.NFT_LIMIT_F_INV != 0 {
		over = "over "
	}
	if a.number(unix.NFTA_LIMIT_TYPE) == unix.NFT_LIMIT_PKT_BYTES {
		unit = "bytes"
	}
	per := nameOf(map[uint32]string{1: "second", 60: "minute", 3600: "hour", 86400: "day", 604800: "week"},
		uint32(a.number(unix.NFTA_LIMIT_UNIT)))
	w.write(fmt.Sprintf("limit rate %s%d/%s burst %d %s", over, a.number(unix.NFTA_LIMIT_RATE), per,
		a.number(unix.NFTA_LIMIT_BURST), unit))
}

func (w *writer) log(a attributes) {
	w.write("log")
	if p := a.text(unix.NFTA_LOG_PREFIX); p != "" {
		w.write("prefix", strconv.Quote(p))
	}
}

func (w *writer) object(a attributes) {
	noun := nameOf(map[uint32]string{1: "counter", 2: "quota", 4: "limit"}, uint32(a.number(unix.NFTA_OBJREF_IMM_TYPE)))
	w.write(noun, "name", strconv.Quote(a.text(unix.NFTA_OBJREF_IMM_NAME)))
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

// xtMatch writes the name of a match of iptables. Its parameters are in a form that only
// xtables knows, except for a comment.
func (w *writer) xtMatch(a attributes) {
	name := a.text(unix.NFTA_MATCH_NAME)
	if name == "comment" {
		w.comment = text(a[unix.NFTA_MATCH_INFO])
		return
	}
	w.write("-m " + name)
}

// xtTarget writes the name of a target of iptables.
func (w *writer) xtTarget(a attributes) {
	name := a.text(unix.NFTA_TARGET_NAME)
	w.rejects = w.rejects || name == "REJECT"
	w.write("-j " + name)
}
