package ruletext

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// A metaField is how nft prints a field that the meta or ct expression loads.
type metaField struct {
	name   string
	kind   kind
	length uint32
}

var metaFields = map[uint64]metaField{
	unix.NFT_META_LEN:         {"meta length", kindNative, 4},
	unix.NFT_META_PROTOCOL:    {"meta protocol", kindHex, 2},
	unix.NFT_META_PRIORITY:    {"meta priority", kindPriority, 4},
	unix.NFT_META_MARK:        {"meta mark", kindMark, 4},
	unix.NFT_META_IIF:         {"iif", kindNative, 4},
	unix.NFT_META_OIF:         {"oif", kindNative, 4},
	unix.NFT_META_IIFNAME:     {"iifname", kindName, 16},
	unix.NFT_META_OIFNAME:     {"oifname", kindName, 16},
	unix.NFT_META_IIFTYPE:     {"iiftype", kindNative, 2},
	unix.NFT_META_OIFTYPE:     {"oiftype", kindNative, 2},
	unix.NFT_META_SKUID:       {"meta skuid", kindNative, 4},
	unix.NFT_META_SKGID:       {"meta skgid", kindNative, 4},
	unix.NFT_META_NFTRACE:     {"meta nftrace", kindNumber, 1},
	unix.NFT_META_NFPROTO:     {"meta nfproto", kindFamily, 1},
	unix.NFT_META_L4PROTO:     {"meta l4proto", kindProtocol, 1},
	unix.NFT_META_BRI_IIFNAME: {"meta ibrname", kindName, 16},
	unix.NFT_META_BRI_OIFNAME: {"meta obrname", kindName, 16},
	unix.NFT_META_PKTTYPE:     {"meta pkttype", kindNumber, 1},
	unix.NFT_META_CPU:         {"meta cpu", kindNative, 4},
	unix.NFT_META_IIFGROUP:    {"iifgroup", kindNative, 4},
	unix.NFT_META_OIFGROUP:    {"oifgroup", kindNative, 4},
	unix.NFT_META_CGROUP:      {"meta cgroup", kindNative, 4},
	unix.NFT_META_PRANDOM:     {"meta random", kindHex, 4},
}

func (w *writer) meta(a attributes) {
	key := a.number(unix.NFTA_META_KEY)
	f, known := metaFields[key]
	if !known {
		f.name = fmt.Sprintf("meta (%d)", key)
	}
	if a.has(unix.NFTA_META_SREG) {
		w.writeAssignment(f.name, f.kind, w.takeRegister(a, unix.NFTA_META_SREG))
		return
	}
	w.setRegister(a, unix.NFTA_META_DREG, value{
		text: f.name, kind: f.kind, length: f.length, protocol: key == unix.NFT_META_L4PROTO,
	})
}

// writeAssignment writes that a field is assigned a value.
func (w *writer) writeAssignment(field string, k kind, v value) {
	if v.data != nil {
		v.kind = k
	}
	w.write(field, "set", w.valueText(v))
}

var ctFields = map[uint64]metaField{
	unix.NFT_CT_STATE:     {"state", kindState, 4},
	unix.NFT_CT_DIRECTION: {"direction", kindNumber, 1},
	unix.NFT_CT_STATUS:    {"status", kindStatus, 4},
	unix.NFT_CT_MARK:      {"mark", kindMark, 4},
	unix.NFT_CT_HELPER:    {"helper", kindName, 16},
	unix.NFT_CT_PROTOCOL:  {"protocol", kindProtocol, 1},
	unix.NFT_CT_SRC:       {"saddr", kindAddress, 0},
	unix.NFT_CT_DST:       {"daddr", kindAddress, 0},
	unix.NFT_CT_PROTO_SRC: {"proto-src", kindNumber, 2},
	unix.NFT_CT_PROTO_DST: {"proto-dst", kindNumber, 2},
	unix.NFT_CT_LABELS:    {"label", kindLabel, 16},
	unix.NFT_CT_PKTS:      {"packets", kindNative, 8},
	unix.NFT_CT_BYTES:     {"bytes", kindNative, 8},
	unix.NFT_CT_ZONE:      {"zone", kindNative, 2},
	unix.NFT_CT_SRC_IP:    {"ip saddr", kindAddress, 4},
	unix.NFT_CT_DST_IP:    {"ip daddr", kindAddress, 4},
	unix.NFT_CT_SRC_IP6:   {"ip6 saddr", kindAddress, 16},
	unix.NFT_CT_DST_IP6:   {"ip6 daddr", kindAddress, 16},
	unix.NFT_CT_ID:        {"id", kindHex, 4},
}

func (w *writer) ct(a attributes) {
	key := a.number(unix.NFTA_CT_KEY)
	f, known := ctFields[key]
	if !known {
		f.name = fmt.Sprintf("(%d)", key)
	}
	name := "ct "
	switch {
	case a.has(unix.NFTA_CT_DIRECTION) && a.number(unix.NFTA_CT_DIRECTION) == 0:
		name += "original "
	case a.has(unix.NFTA_CT_DIRECTION):
		name += "reply "
	}
	name += f.name
	if a.has(unix.NFTA_CT_SREG) {
		w.writeAssignment(name, f.kind, w.takeRegister(a, unix.NFTA_CT_SREG))
		return
	}
	w.setRegister(a, unix.NFTA_CT_DREG, value{text: name, kind: f.kind, length: f.length})
}

// A header is a field of the packet's headers.
type header struct {
	base, offset, length uint64
}

// Bases of payload expressions (enum nft_payload_bases).
const (
	baseLink = iota
	baseNetwork
	baseTransport
)

var headers = map[header]struct {
	name string
	kind kind
}{
	{baseNetwork, 12, 4}:  {"ip saddr", kindAddress},
	{baseNetwork, 16, 4}:  {"ip daddr", kindAddress},
	{baseNetwork, 9, 1}:   {"ip protocol", kindProtocol},
	{baseNetwork, 8, 16}:  {"ip6 saddr", kindAddress},
	{baseNetwork, 24, 16}: {"ip6 daddr", kindAddress},
	{baseNetwork, 6, 1}:   {"ip6 nexthdr", kindProtocol},
	{baseTransport, 0, 2}: {"sport", kindNumber},
	{baseTransport, 2, 2}: {"dport", kindNumber},
}

func (w *writer) payload(a attributes) {
	at := header{
		a.number(unix.NFTA_PAYLOAD_BASE), a.number(unix.NFTA_PAYLOAD_OFFSET), a.number(unix.NFTA_PAYLOAD_LEN),
	}
	name, k := w.field(at)
	if a.has(unix.NFTA_PAYLOAD_SREG) {
		w.writeAssignment(name, k, w.takeRegister(a, unix.NFTA_PAYLOAD_SREG))
		return
	}
	w.setRegister(a, unix.NFTA_PAYLOAD_DREG, value{text: name, kind: k, length: uint32(at.length)})
}

// field returns the name of a field of the packet's headers; the raw notation of nft, in
// bits, if it has none here.
func (w *writer) field(at header) (string, kind) {
	f, known := headers[at]
	isICMP := strings.HasSuffix(w.protocol, "icmp")
	switch {
	case at.base == baseTransport && at.offset == 0 && at.length == 1 && isICMP:
		return w.transport() + " type", kindNumber
	case at.base == baseTransport && at.offset == 13 && at.length == 1 && w.protocol == "tcp":
		return w.transport() + " flags", kindHex
	case known && at.base == baseTransport:
		return w.transport() + " " + f.name, f.kind
	case known:
		return f.name, f.kind
	}
	base := [...]string{"ll", "nh", "th", "ih"}[min(at.base, 3)]
	return fmt.Sprintf("@%s,%d,%d", base, at.offset*8, at.length*8), kindHex
}

func (w *writer) fib(a attributes) {
	var parts []string
	for _, flag := range []struct {
		bit  uint64
		name string
	}{
		{unix.NFTA_FIB_F_SADDR, "saddr"},
		{unix.NFTA_FIB_F_DADDR, "daddr"},
		{unix.NFTA_FIB_F_MARK, "mark"},
		{unix.NFTA_FIB_F_IIF, "iif"},
		{unix.NFTA_FIB_F_OIF, "oif"},
	} {
		if a.number(unix.NFTA_FIB_FLAGS)&flag.bit != 0 {
			parts = append(parts, flag.name)
		}
	}
	v := value{kind: kindNative, length: 4}
	result := "oif"
	switch a.number(unix.NFTA_FIB_RESULT) {
	case unix.NFT_FIB_RESULT_OIFNAME:
		result, v.kind, v.length = "oifname", kindName, 16
	case unix.NFT_FIB_RESULT_ADDRTYPE:
		result, v.kind = "type", kindRoute
	}
	v.text = "fib " + strings.Join(parts, " . ") + " " + result
	w.setRegister(a, unix.NFTA_FIB_DREG, v)
}

func (w *writer) numgen(a attributes) {
	how := "random"
	if a.number(unix.NFTA_NG_TYPE) == unix.NFT_NG_INCREMENTAL {
		how = "inc"
	}
	w.setRegister(a, unix.NFTA_NG_DREG, value{
		text: fmt.Sprintf("numgen %s mod %d", how, a.number(unix.NFTA_NG_MODULUS)), kind: kindNative, length: 4,
	})
}

func (w *writer) hash(a attributes) {
	v := value{kind: kindNative, length: 4}
	if a.number(unix.NFTA_HASH_TYPE) == 1 { // NFT_HASH_SYM
		v.text = "symhash"
	} else {
		v.text = "jhash " + w.join(w.takeRegisters(a, unix.NFTA_HASH_SREG))
	}
	v.text += fmt.Sprintf(" mod %d", a.number(unix.NFTA_HASH_MODULUS))
	if a.has(unix.NFTA_HASH_SEED) {
		v.text += fmt.Sprintf(" seed 0x%x", a.number(unix.NFTA_HASH_SEED))
	}
	w.setRegister(a, unix.NFTA_HASH_DREG, v)
}
