package simulate

import (
	"fmt"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A field is how nft prints what an expression loads.
type field struct {
	name   string
	form   form
	length uint32
}

var metaFields = map[expr.MetaKey]field{
	unix.NFT_META_LEN:         {"meta length", formNative, 4},
	unix.NFT_META_PROTOCOL:    {"meta protocol", formHex, 2},
	unix.NFT_META_PRIORITY:    {"meta priority", formPriority, 4},
	unix.NFT_META_MARK:        {"meta mark", formMark, 4},
	unix.NFT_META_IIF:         {"iif", formNative, 4},
	unix.NFT_META_OIF:         {"oif", formNative, 4},
	unix.NFT_META_IIFNAME:     {"iifname", formName, 16},
	unix.NFT_META_OIFNAME:     {"oifname", formName, 16},
	unix.NFT_META_IIFTYPE:     {"iiftype", formNative, 2},
	unix.NFT_META_OIFTYPE:     {"oiftype", formNative, 2},
	unix.NFT_META_SKUID:       {"meta skuid", formNative, 4},
	unix.NFT_META_SKGID:       {"meta skgid", formNative, 4},
	unix.NFT_META_NFTRACE:     {"meta nftrace", formNumber, 1},
	unix.NFT_META_NFPROTO:     {"meta nfproto", formFamily, 1},
	unix.NFT_META_L4PROTO:     {"meta l4proto", formProtocol, 1},
	unix.NFT_META_BRI_IIFNAME: {"meta ibrname", formName, 16},
	unix.NFT_META_BRI_OIFNAME: {"meta obrname", formName, 16},
	unix.NFT_META_PKTTYPE:     {"meta pkttype", formNumber, 1},
	unix.NFT_META_CPU:         {"meta cpu", formNative, 4},
	unix.NFT_META_IIFGROUP:    {"iifgroup", formNative, 4},
	unix.NFT_META_OIFGROUP:    {"oifgroup", formNative, 4},
	unix.NFT_META_CGROUP:      {"meta cgroup", formNative, 4},
	unix.NFT_META_PRANDOM:     {"meta random", formHex, 4},
}

// load notes that a register has a field, or writes that the field is assigned a register.
func (w *ruleWriter) load(f field, register uint32, assign, protocol bool) {
	if !assign {
		w.set(register, operand{text: f.name, form: f.form, length: f.length, protocol: protocol})
		return
	}
	v := w.take(register)
	if v.data != nil {
		v.form = f.form
	}
	w.write(f.name, "set", v.String())
}

func (w *ruleWriter) meta(e *expr.Meta) {
	f, known := metaFields[e.Key]
	if !known {
		f.name = fmt.Sprintf("meta (%d)", e.Key)
	}
	w.load(f, e.Register, e.SourceRegister, e.Key == expr.MetaKeyL4PROTO)
}

var ctFields = map[expr.CtKey]field{
	unix.NFT_CT_STATE:     {"state", formState, 4},
	unix.NFT_CT_DIRECTION: {"direction", formDirection, 1},
	unix.NFT_CT_STATUS:    {"status", formStatus, 4},
	unix.NFT_CT_MARK:      {"mark", formMark, 4},
	unix.NFT_CT_HELPER:    {"helper", formName, 16},
	unix.NFT_CT_PROTOCOL:  {"protocol", formProtocol, 1},
	unix.NFT_CT_SRC:       {"saddr", formAddress, 0},
	unix.NFT_CT_DST:       {"daddr", formAddress, 0},
	unix.NFT_CT_PROTO_SRC: {"proto-src", formNumber, 2},
	unix.NFT_CT_PROTO_DST: {"proto-dst", formNumber, 2},
	unix.NFT_CT_LABELS:    {"label", formLabel, 16},
	unix.NFT_CT_PKTS:      {"packets", formNative, 8},
	unix.NFT_CT_BYTES:     {"bytes", formNative, 8},
	unix.NFT_CT_ZONE:      {"zone", formNative, 2},
	unix.NFT_CT_SRC_IP:    {"ip saddr", formAddress, 4},
	unix.NFT_CT_DST_IP:    {"ip daddr", formAddress, 4},
	unix.NFT_CT_SRC_IP6:   {"ip6 saddr", formAddress, 16},
	unix.NFT_CT_DST_IP6:   {"ip6 daddr", formAddress, 16},
	unix.NFT_CT_ID:        {"id", formHex, 4},
}

func (w *ruleWriter) ct(e *expr.Ct) {
	f, known := ctFields[e.Key]
	if !known {
		f.name = fmt.Sprintf("(%d)", e.Key)
	}
	directed := e.OptDirection
	switch e.Key { // the kernel requires a direction
	case unix.NFT_CT_SRC, unix.NFT_CT_DST, unix.NFT_CT_PROTO_SRC, unix.NFT_CT_PROTO_DST,
		unix.NFT_CT_SRC_IP, unix.NFT_CT_DST_IP, unix.NFT_CT_SRC_IP6, unix.NFT_CT_DST_IP6:
		directed = true
	}
	switch {
	case directed && e.Direction == 0:
		f.name = "original " + f.name
	case directed || e.Direction != 0:
		f.name = "reply " + f.name
	}
	f.name = "ct " + f.name
	w.load(f, e.Register, e.SourceRegister, false)
}

// A headerField is where a field of the packet's headers is.
type headerField struct {
	base           expr.PayloadBase
	offset, length uint32
}

var headerFields = map[headerField]field{
	{expr.PayloadBaseNetworkHeader, 12, 4}:                {"ip saddr", formAddress, 4},
	{expr.PayloadBaseNetworkHeader, 16, 4}:                {"ip daddr", formAddress, 4},
	{expr.PayloadBaseNetworkHeader, 9, 1}:                 {"ip protocol", formProtocol, 1},
	{expr.PayloadBaseNetworkHeader, 8, 16}:                {"ip6 saddr", formAddress, 16},
	{expr.PayloadBaseNetworkHeader, 24, 16}:               {"ip6 daddr", formAddress, 16},
	{expr.PayloadBaseNetworkHeader, 6, 1}:                 {"ip6 nexthdr", formProtocol, 1},
	{expr.PayloadBaseTransportHeader, sourcePort, 2}:      {"sport", formNumber, 2},
	{expr.PayloadBaseTransportHeader, destinationPort, 2}: {"dport", formNumber, 2},
}

// payload writes a field in the raw notation of nft, in bits, if it has no name here.
func (w *ruleWriter) payload(e *expr.Payload) {
	at := headerField{e.Base, e.Offset, e.Len}
	f, known := headerFields[at]
	switch {
	case at == headerField{expr.PayloadBaseTransportHeader, 0, 1} && strings.HasSuffix(w.protocol, "icmp"):
		f = field{strings.Replace(w.transport(), "ipv6-icmp", "icmpv6", 1) + " type", formICMP, 1}
	case at == headerField{expr.PayloadBaseTransportHeader, tcpFlags, 1} && w.protocol == "tcp":
		f = field{w.transport() + " flags", formTCPFlags, 1}
	case known && e.Base == expr.PayloadBaseTransportHeader:
		f.name = w.transport() + " " + f.name
	case !known:
		base := [...]string{"ll", "nh", "th", "ih"}[min(e.Base, 3)]
		f = field{fmt.Sprintf("@%s,%d,%d", base, uint64(e.Offset)*8, uint64(e.Len)*8), formHex, e.Len}
	}
	if e.OperationType == expr.PayloadWrite {
		w.load(f, e.SourceRegister, true, false)
	} else {
		w.load(f, e.DestRegister, false, false)
	}
}

func (w *ruleWriter) fib(e *expr.Fib) {
	var parts []string
	for _, flag := range []struct {
		set  bool
		name string
	}{{e.FlagSADDR, "saddr"}, {e.FlagDADDR, "daddr"}, {e.FlagMARK, "mark"}, {e.FlagIIF, "iif"}, {e.FlagOIF, "oif"}} {
		if flag.set {
			parts = append(parts, flag.name)
		}
	}
	f := field{"oif", formNative, 4}
	switch {
	case e.ResultOIFNAME:
		f = field{"oifname", formName, 16}
	case e.ResultADDRTYPE:
		f = field{"type", formRoute, 4}
	}
	f.name = "fib " + strings.Join(parts, " . ") + " " + f.name
	w.load(f, e.Register, false, false)
}

func (w *ruleWriter) numgen(e *expr.Numgen) {
	how := "random"
	if e.Type == unix.NFT_NG_INCREMENTAL {
		how = "inc"
	}
	w.load(field{fmt.Sprintf("numgen %s mod %d", how, e.Modulus), formNative, 4}, e.Register, false, false)
}

func (w *ruleWriter) hash(e *expr.Hash) {
	text := "symhash"
	if e.Type != expr.HashTypeSym {
		text = "jhash " + w.takeAll(e.SourceRegister)
	}
	text += fmt.Sprintf(" mod %d", e.Modulus)
	if e.Seed != 0 {
		text += fmt.Sprintf(" seed 0x%x", e.Seed)
	}
	if e.Offset != 0 {
		text += fmt.Sprintf(" offset %d", e.Offset)
	}
	w.load(field{text, formNative, 4}, e.DestRegister, false, false)
}
