package simulate

import "net/netip"

// matchState matches struct xt_state_info. Its bits are as in conntrack, except for untracked
// packets.
func (w *walk) matchState(b info) (bool, error) {
	state := b.u32(0) & (ctInvalid | ctEstablished | ctRelated | ctNew)
	if b.u32(0)&stateUntracked != 0 {
		state |= ctUntracked
	}
	return w.xtState()&state != 0, nil
}

// States as iptables numbers them (XT_CONNTRACK_STATE_*).
const (
	ctInvalid = 1 << iota
	ctEstablished
	ctRelated
	ctNew
	_
	_
	ctSourceNAT
	ctDestNAT
	ctUntracked
)

// Conditions of a match of conntrack (XT_CONNTRACK_*), also as those that are inverted.
const (
	byState = 1 << iota
	byProtocol
	byAddr // the original source; that and the following are of the four addresses
	_
	_
	_
	byStatus
	byExpiry
	byPort
	_
	_
	_
	byDirection
)

// matchConntrack is conntrack_mt of net/netfilter/xt_conntrack.c. Ports are in the byte order of the
// machine.
func (w *walk) matchConntrack(b info) (bool, error) {
	c, flags, inverted := &w.conn, b.u16(146), b.u16(148)
	state, status := uint32(b.u16(150)), uint32(b.u16(152))
	fails := func(condition uint16, holds bool) bool {
		return flags&condition != 0 && holds == (inverted&condition != 0)
	}
	switch {
	case fails(byState, w.xtState()&state != 0):
		return false, nil
	case !c.known:
		return flags&byState != 0, nil
	case fails(byDirection, !c.reply), fails(byProtocol, b.u16(136)&0xff == uint16(w.frame.protocol)),
		fails(byStatus, status&c.status != 0):
		return false, nil
	}
	for i, a := range [...]netip.AddrPort{c.client, c.requested, c.endpoint, c.seenSource} {
		if flags&(byAddr<<i|byPort<<i) == 0 {
			continue
		}
		want, mask := b.addr(2*i*addrLen), b.addr((2*i+1)*addrLen)
		if fails(byAddr<<i, masked(a.Addr(), mask) == want) {
			return false, nil
		}
		ports := portRange{b.u16(138 + 2*i), b.u16(154 + 2*i)}
		switch {
		case flags&(byPort<<i) != 0 && a.Port() == 0:
			return false, errUnknownPort
		case fails(byPort<<i, ports.contains(a.Port())):
			return false, nil
		}
	}
	if flags&byExpiry != 0 {
		return false, undecidedError("a match of when a connection expires")
	}
	return true, nil
}

// xtState returns the state of the connection as iptables numbers it.
func (w *walk) xtState() uint32 {
	c := &w.conn
	switch {
	case c.untracked:
		return ctUntracked
	case !c.known:
		return ctInvalid
	}
	state := c.state // the same bits
	if c.status&statusSourceNAT != 0 {
		state |= ctSourceNAT
	}
	if c.status&statusDestNAT != 0 {
		state |= ctDestNAT
	}
	return state
}
