package xt

import (
	"net/netip"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// DecodeTarget decodes a target, by the kernel's name, revision and structure of it; false if
// it is unknown.
func DecodeTarget(name string, number uint32, v6 bool, data []byte) (any, bool) {
	if withoutEffect[name] {
		return NoEffect{name}, true
	}
	return decode(targets, name, number, v6, data)
}

// withoutEffect are targets that do not change where a packet goes, in all revisions: they
// log, or change fields of headers that no rule of a Service proxy matches.
var withoutEffect = map[string]bool{
	"AUDIT": true, "CHECKSUM": true, "CLASSIFY": true, "CONNSECMARK": true, "DSCP": true, "ECN": true,
	"HL": true, "IDLETIMER": true, "LED": true, "LOG": true, "NFLOG": true, "RATEEST": true, "SECMARK": true,
	"TCPMSS": true, "TCPOPTSTRIP": true, "TEE": true, "TOS": true, "TRACE": true, "TTL": true, "ULOG": true,
}

// targets are the known targets with an effect.
var targets = map[revision]format{
	{"MARK", 2}:       {8, func(b info, _ bool) any { return SetMark{b.u32(0), b.u32(4)} }},
	{"CONNMARK", 1}:   {13, decodeConnMark},
	{"CONNMARK", 2}:   {15, decodeConnMark2},
	{"CT", 0}:         {4, decodeCT},
	{"CT", 1}:         {4, decodeCT},
	{"CT", 2}:         {4, decodeCT},
	{"NOTRACK", 0}:    {0, func(info, bool) any { return &expr.Notrack{} }},
	{"REJECT", 0}:     {4, decodeReject},
	{"TPROXY", 0}:     {14, decodeTProxy},
	{"TPROXY", 1}:     {26, decodeTProxy1},
	{"MASQUERADE", 0}: {0, func(info, bool) any { return &expr.Masq{} }},
	{"REDIRECT", 0}:   {20, decodeRedirect},
	{"SNAT", 0}:       {20, func(b info, v6 bool) any { return decodeNAT(b, v6, true, 0) }},
	{"SNAT", 1}:       {40, func(b info, v6 bool) any { return decodeNAT(b, v6, true, 1) }},
	{"SNAT", 2}:       {42, func(b info, v6 bool) any { return decodeNAT(b, v6, true, 2) }},
	{"DNAT", 0}:       {20, func(b info, v6 bool) any { return decodeNAT(b, v6, false, 0) }},
	{"DNAT", 1}:       {40, func(b info, v6 bool) any { return decodeNAT(b, v6, false, 1) }},
	{"DNAT", 2}:       {42, func(b info, v6 bool) any { return decodeNAT(b, v6, false, 2) }},
	{"NETMAP", 0}:     {20, decodeNetmap},
	{"NFQUEUE", 0}:    {2, func(b info, _ bool) any { return Queue{From: b.u16(0), To: b.u16(0)} }},
	{"NFQUEUE", 1}:    {4, decodeQueue},
	{"NFQUEUE", 2}:    {6, decodeQueue2},
	{"NFQUEUE", 3}:    {6, decodeQueue2},
	{"SET", 1}:        {8, decodeSetTarget},
	{"SET", 2}:        {8, decodeSetTarget},
	{"SET", 3}:        {20, decodeSetTarget3},
}

// decodeConnMark decodes struct xt_connmark_tginfo1.
func decodeConnMark(b info, _ bool) any { return connMark(b, 12, 0, 0) }

// decodeConnMark2 decodes struct xt_connmark_tginfo2, which has a shift before the mode.
func decodeConnMark2(b info, _ bool) any {
	const right = 1 // D_SHIFT_RIGHT
	if b.u8(12) == right {
		return connMark(b, 14, 0, b.u8(13))
	}
	return connMark(b, 14, b.u8(13), 0)
}

func connMark(b info, mode int, left, right uint8) any {
	c := ConnMark{
		Mode: ConnMarkMode(b.u8(mode)), Value: b.u32(0), Mask: b.u32(4), PacketMask: b.u32(8), ShiftLeft: left,
		ShiftRight: right,
	}
	if c.Mode > ConnMarkRestore {
		return nil
	}
	return c
}

// decodeCT decodes struct xt_ct_target_info. Helpers, events and timeouts make no difference.
func decodeCT(b info, _ bool) any {
	const notrack = 1 // XT_CT_NOTRACK
	switch flags, zone := b.u16(0), b.u16(2); {
	case flags&notrack != 0:
		return &expr.Notrack{}
	case zone != 0 || flags != 0:
		return Zone{}
	}
	return NoEffect{"CT"}
}

// Answers of REJECT as codes of ICMP: enum ipt_reject_with and ip6t_reject_with.
var (
	rejects4 = map[uint32]uint8{0: 0, 1: 1, 2: 2, 3: 3, 5: 9, 6: 10, 8: 13}
	rejects6 = map[uint32]uint8{0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 7: 5, 8: 6}
)

// decodeReject decodes struct ipt_reject_info and ip6t_reject_info.
func decodeReject(b info, v6 bool) any {
	codes, reset := rejects4, uint32(7)
	if v6 {
		codes, reset = rejects6, 6
	}
	if b.u32(0) == reset {
		return &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}
	}
	code, ok := codes[b.u32(0)]
	if !ok {
		return nil
	}
	return &expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: code}
}

// decodeTProxy decodes struct xt_tproxy_target_info.
func decodeTProxy(b info, _ bool) any {
	return TProxy{Mask: b.u32(0), Value: b.u32(4), To: netip.AddrPortFrom(b.addr(8, false), b.be16(12))}
}

// decodeTProxy1 decodes struct xt_tproxy_target_info_v1.
func decodeTProxy1(b info, v6 bool) any {
	return TProxy{Mask: b.u32(0), Value: b.u32(4), To: netip.AddrPortFrom(b.addr(8, v6), b.be16(24))}
}

// decodeQueue decodes struct xt_NFQ_info_v1.
func decodeQueue(b info, _ bool) any {
	return Queue{From: b.u16(0), To: b.u16(0) + max(b.u16(2), 1) - 1}
}

// decodeQueue2 decodes struct xt_NFQ_info_v2 and xt_NFQ_info_v3.
func decodeQueue2(b info, _ bool) any {
	const bypass = 1 // NFQ_FLAG_BYPASS
	q := decodeQueue(b, false).(Queue)
	q.Bypass = b.u16(4)&bypass != 0
	return q
}

// decodeRedirect decodes what REDIRECT has in each family.
func decodeRedirect(b info, v6 bool) any {
	n, ok := decodeNATOf(b, v6)
	if !ok {
		return nil
	}
	return Redirect{n.Ports, n.RandomPort}
}

// decodeNetmap decodes what NETMAP has in each family.
func decodeNetmap(b info, v6 bool) any {
	n, ok := decodeNATOf(b, v6)
	if !ok {
		return nil
	}
	return Netmap{n.Addrs}
}

// decodeNATOf decodes the ranges of a target that has another revision in each family.
func decodeNATOf(b info, v6 bool) (NAT, bool) {
	number := 0
	if v6 {
		number = 1
	}
	n, ok := decodeNAT(b, v6, false, number).(NAT)
	return n, ok
}

// decodeNAT decodes struct nf_nat_ipv4_multi_range_compat (revision 0, IPv4 only), or
// nf_nat_range and nf_nat_range2, which begin alike.
func decodeNAT(b info, v6, source bool, number int) any {
	const mapAddrs, mapPorts, random, persistent, randomFully, offset = 1, 2, 4, 8, 16, 32 // NF_NAT_RANGE_*
	n := NAT{Source: source}
	var flags uint32
	var addrs AddrRange
	var ports PortRange
	switch {
	case number == 0 && v6, number > 0 && len(b) < 40:
		return nil
	case number == 0:
		flags, addrs, ports = b.u32(4), AddrRange{b.addr(8, false), b.addr(12, false)}, PortRange{b.be16(16), b.be16(18)}
	default:
		flags, addrs, ports = b.u32(0), AddrRange{b.addr(4, v6), b.addr(20, v6)}, PortRange{b.be16(36), b.be16(38)}
	}
	if flags&mapAddrs != 0 {
		n.Addrs = addrs
	}
	if flags&mapPorts != 0 {
		n.Ports = ports
	}
	n.RandomPort = flags&(random|randomFully) != 0
	n.Persistent = flags&persistent != 0
	if flags&offset != 0 {
		if len(b) < 42 {
			return nil
		}
		n.Shifted, n.Base = true, b.be16(40)
	}
	return n
}
