package simulate

func (w *walk) targetMark(b info) (verdict, error) {
	w.setMark(w.frame.mark&^b.u32(4) ^ b.u32(0))
	return verdictContinue, nil
}

// Modes of CONNMARK: it sets the mark of the connection, saves the mark of the packet there, or
// restores it (XT_CONNMARK_*).
const connMarkSet, connMarkSave, connMarkRestore = 0, 1, 2

// connMarkMode returns the mode. Revision 2 has a shift before it.
func (b info) connMarkMode() uint8 {
	if b.revision == 2 {
		return b.u8(14)
	}
	return b.u8(12)
}

// targetConnMark is connmark_tg_shift of net/netfilter/xt_connmark.c.
func (w *walk) targetConnMark(b info) (verdict, error) {
	value, mask, packetMask := b.u32(0), b.u32(4), b.u32(8)
	mode, packet, connection := b.connMarkMode(), w.frame.mark, &w.conn.mark
	switch {
	case mode > connMarkRestore, b.revision == 2 && b.u8(13) != 0: // a shift
		return verdictBreak, undecidedError("xt target CONNMARK")
	case !w.conn.known:
	case mode == connMarkSet:
		*connection = *connection&^mask ^ value
	case mode == connMarkSave:
		*connection = *connection&^mask ^ packet&packetMask
	default:
		w.setMark(packet&^packetMask ^ *connection&mask)
	}
	return verdictContinue, nil
}

// targetCT runs struct xt_ct_target_info. Helpers, events and timeouts make no difference.
func (w *walk) targetCT(b info) (verdict, error) {
	const notrack = 1 // XT_CT_NOTRACK
	switch flags, zone := b.u16(0), b.u16(2); {
	case flags&notrack != 0:
		return w.notrack()
	case zone != 0 || flags != 0:
		return verdictBreak, undecidedError("a zone of connection tracking is set")
	}
	return verdictContinue, nil
}

// targetReject rejects with enum ipt_reject_with or ip6t_reject_with. An answer to a ping is not
// in use.
func (w *walk) targetReject(b info) (verdict, error) {
	port, ping, reset := uint32(3), uint32(4), uint32(7)
	if b.v6 {
		port, ping, reset = 4, 5, 6
	}
	const most = 8
	switch n := b.u32(0); {
	case n == ping || n > most:
		return verdictBreak, undecidedError("xt target REJECT")
	case n == reset:
		return w.refuse(HowReset), nil
	case n == port:
		return w.refuse(HowUnreachable), nil
	}
	return w.refuse(HowError), nil
}

// targetQueue runs struct xt_NFQ_info and its later revisions.
func (w *walk) targetQueue(b info) (verdict, error) { return w.queue(b.u16(0)) }

// targetSet adds the packet to sets of ipset, or deletes it. It may set the mark to an
// element's.
func (w *walk) targetSet(b info) (verdict, error) {
	const noSet, mapMark = 65535, 1 << 8 // IPSET_INVALID_ID, IPSET_FLAG_MAP_SKBMARK
	if b.u16(8) != noSet && b.u32(12)&mapMark != 0 {
		return verdictBreak, undecidedError("xt target SET")
	}
	w.changedIPSets = true
	return verdictContinue, nil
}

func (w *walk) targetSNAT(b info) (verdict, error) { return w.targetNAT(b, true) }
func (w *walk) targetDNAT(b info) (verdict, error) { return w.targetNAT(b, false) }

func (w *walk) targetNAT(b info, source bool) (verdict, error) {
	n, err := b.translation()
	if err != nil {
		return verdictBreak, err
	}
	n.source = source
	return w.translateTo(n)
}

// targetRedirect runs REDIRECT, whose families have the structures of two revisions.
func (w *walk) targetRedirect(b info) (verdict, error) {
	b.revision = uint32(byteOf(b.v6))
	n, err := b.translation()
	if err != nil {
		return verdictBreak, err
	}
	return w.redirectTo(n.ports, n.randomPort)
}

// translation decodes struct nf_nat_ipv4_multi_range_compat (revision 0, IPv4 only), or
// nf_nat_range and nf_nat_range2, which begin alike.
func (b info) translation() (n translation, err error) {
	const mapAddrs, mapPorts, random, randomFully, offset = 1, 2, 4, 16, 32 // NF_NAT_RANGE_*
	flags, first, last, ports := 0, 4, 20, 36
	if b.revision == 0 {
		flags, first, last, ports = 4, 8, 12, 16
	}
	if b.revision == 0 && b.v6 || len(b.data) < ports+4 {
		return n, undecidedError("a translation of an unknown kind")
	}
	has := func(flag uint32) bool { return b.u32(flags)&flag != 0 }
	if has(offset) {
		return n, undecidedError("a translation that shifts ports")
	}
	if has(mapAddrs) {
		n.addrs = addrRange{b.addr(first), b.addr(last)}
	}
	if has(mapPorts) {
		n.ports = portRange{b.be16(ports), b.be16(ports + 2)}
	}
	n.randomPort = has(random | randomFully)
	return n, nil
}

// targetTTL runs struct ipt_TTL_info or ip6t_HL_info, which begin with the mode.
func (w *walk) targetTTL(b info) (verdict, error) {
	const set = 0
	if b.u8(0) == set {
		w.frame.network.set(int(hopLimitFields[w.frame.family]), []byte{b.u8(1)})
	}
	return verdictContinue, nil
}

// targetTOS runs targets that set the type of service, to what is not decoded.
func (w *walk) targetTOS(b info) (verdict, error) {
	u := w.frame.network.unknown
	if u[1] = 0xff; b.v6 {
		u[0] |= 0x0f
	}
	return verdictContinue, nil
}
