package simulate

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"

	"kube-vmap/model"
)

// An Extension is a match or target of iptables: the binary structure that iptables-nft writes to
// the kernel (include/uapi/linux/netfilter/xt_*.h). It is in the byte order of the machine, except
// for ports of translations.
type Extension struct {
	Name string
	info info
	*extension
}

// An info is a structure. Its length is checked before it is read.
type info struct {
	data     []byte
	revision uint32
	v6       bool // the packet is of IPv6
}

// An extension is what is known of the structures of a name. A function that finds a structure
// which it does not understand returns an [undecidedError]; a name that is not in the table is a
// doubt.
type extension struct {
	sizes  revisions
	match  func(*walk, info) (bool, error)
	target func(*walk, info) (verdict, error)
	picks  bool // a match at random
	// changes reports whether the match or target may have an effect on later rules, or on where
	// the packet goes. Without it targets have, and matches have none.
	changes func(info) bool
	// requires returns the ports of which the destination must be one.
	requires func(info) portRange
}

// revisions are the least lengths of structures by their revision. The tools of iptables write the
// last one that they and the kernel know. Those that are not listed are not certain.
type revisions map[uint32]int

// extensionOf returns a match or target; false if it is unknown, or its structure too short.
func extensionOf(name string, b info) (Extension, bool) {
	if harmlessTargets[name] {
		return Extension{name, b, &extension{}}, true
	}
	x := extensions[name]
	if x == nil {
		return Extension{}, false
	}
	size, known := x.sizes[b.revision]
	return Extension{name, b, x}, known && len(b.data) >= size
}

func (x *Extension) run(w *walk) (verdict, error) {
	b := x.info
	b.v6 = w.frame.family == model.IPv6
	switch {
	case x.target != nil:
		return x.target(w, b)
	case x.match != nil:
		ok, err := x.match(w, b)
		return matchVerdict(ok), err
	}
	return verdictContinue, nil
}

// hasEffect reports whether it may decide what happens to a packet, or change something that
// other rules match.
func (x *Extension) hasEffect() bool {
	if x.changes != nil {
		return x.changes(x.info)
	}
	return x.target != nil
}

// optionText returns the option of iptables, without what follows the name. Names of targets are in
// upper case.
func (x *Extension) optionText() []string {
	switch {
	case x.Name == "comment":
		return nil
	case x.Name == strings.ToUpper(x.Name):
		return []string{"-j", x.Name}
	}
	return []string{"-m", x.Name}
}

func (b info) u8(at int) uint8   { return b.data[at] }
func (b info) u16(at int) uint16 { return binary.NativeEndian.Uint16(b.data[at:]) }
func (b info) u32(at int) uint32 { return binary.NativeEndian.Uint32(b.data[at:]) }

// be16 returns a port of a translation, which is in network byte order.
func (b info) be16(at int) uint16 { return binary.BigEndian.Uint16(b.data[at:]) }

// text returns a string that ends with a zero byte.
func (b info) text(at, n int) string {
	s, _, _ := bytes.Cut(b.data[at:at+n], []byte{0})
	return string(s)
}

// addrLen is the length of union nf_inet_addr.
const addrLen = 16

func (b info) addr(at int) netip.Addr {
	if b.v6 {
		return netip.AddrFrom16([16]byte(b.data[at:]))
	}
	return netip.AddrFrom4([4]byte(b.data[at:]))
}

func (b info) ports(at int) portRange { return portRange{b.u16(at), b.u16(at + 2)} }

type portRange struct{ from, to uint16 }

func (r portRange) contains(port uint16) bool { return r.from <= port && port <= r.to }

var anyPort = portRange{0, 65535}

// An addrRange is a range of addresses; both ends belong to it.
type addrRange struct{ from, to netip.Addr }

func (r addrRange) contains(a netip.Addr) bool { return !a.Less(r.from) && !r.to.Less(a) }

var extensions = map[string]*extension{
	"comment":   {sizes: revisions{0: 1}},
	"nfacct":    {sizes: revisions{0: 0}},
	"mark":      {sizes: revisions{1: 9}, match: (*walk).matchMark},
	"connmark":  {sizes: revisions{1: 9}, match: (*walk).matchConnMark},
	"tcp":       {sizes: revisions{0: 12}, match: (*walk).matchTCP, requires: tcpDestination},
	"udp":       {sizes: revisions{0: 9}, match: (*walk).matchUDP, requires: udpDestination},
	"sctp":      {sizes: revisions{0: 292}, match: (*walk).matchSCTP, requires: sctpDestination},
	"multiport": {sizes: revisions{1: 48}, match: (*walk).matchMultiPort},
	"addrtype":  {sizes: revisions{1: 8}, match: (*walk).matchAddrType},
	"iprange":   {sizes: revisions{1: 4*addrLen + 1}, match: (*walk).matchIPRange},
	"state":     {sizes: revisions{0: 4}, match: (*walk).matchState},
	"conntrack": {sizes: revisions{3: 162}, match: (*walk).matchConntrack},
	"statistic": {sizes: revisions{0: 16}, match: (*walk).matchStatistic, picks: true},
	"recent": {
		sizes: revisions{1: 228}, match: (*walk).matchRecent,
		changes: func(b info) bool { return b.u8(8)&(recentSet|recentRemove) != 0 },
	},
	"set":      {sizes: revisions{4: 44}, match: (*walk).matchSet},
	"helper":   {sizes: revisions{0: 4}, match: (*walk).matchHelper},
	"pkttype":  {sizes: revisions{0: 8}, match: (*walk).matchPacketType},
	"length":   {sizes: revisions{0: 5}, match: (*walk).matchLength},
	"socket":   {sizes: revisions{1: 1, 2: 1, 3: 1}, match: (*walk).matchSocket},
	"owner":    {sizes: revisions{1: 18}, match: (*walk).matchOwner},
	"physdev":  {sizes: revisions{0: 66}, match: (*walk).matchPhysDev},
	"rpfilter": {sizes: revisions{0: 1}, match: (*walk).matchRPFilter},

	// Other protocols than TCP, UDP and SCTP, and extension headers of IPv6, which packets do
	// not have.
	"icmp": never, "icmp6": never, "rt": never, "frag": never, "hbh": never, "dst": never,
	"srh": {sizes: revisions{0: 0, 1: 0}, match: never.match},

	"MARK":     {sizes: revisions{2: 8}, target: (*walk).targetMark},
	"CONNMARK": {sizes: revisions{1: 13, 2: 15}, target: (*walk).targetConnMark},
	"CT": {
		sizes: revisions{0: 4, 1: 4, 2: 4}, target: (*walk).targetCT,
		changes: func(b info) bool { return b.u32(0) != 0 }, // flags and zone
	},
	"NOTRACK":    {sizes: revisions{0: 0}, target: func(w *walk, _ info) (verdict, error) { return w.notrack() }},
	"REJECT":     {sizes: revisions{0: 4}, target: (*walk).targetReject},
	"MASQUERADE": {sizes: revisions{0: 0}, target: func(w *walk, _ info) (verdict, error) { return w.masquerade() }},
	"REDIRECT":   {sizes: revisions{0: 20}, target: (*walk).targetRedirect},
	"SNAT":       {sizes: revisions{0: 20, 1: 40, 2: 42}, target: (*walk).targetSNAT},
	"DNAT":       {sizes: revisions{0: 20, 1: 40, 2: 42}, target: (*walk).targetDNAT},
	"NFQUEUE":    {sizes: revisions{0: 2, 1: 4, 2: 6, 3: 6}, target: (*walk).targetQueue},
	"SET":        {sizes: revisions{3: 20}, target: (*walk).targetSet},
	"TTL":        {sizes: revisions{0: 2}, target: (*walk).targetTTL},
	"HL":         {sizes: revisions{0: 2}, target: (*walk).targetTTL},
	"TOS":        {sizes: revisions{0: 0, 1: 0}, target: (*walk).targetTOS},
	"DSCP":       {sizes: revisions{0: 0}, target: (*walk).targetTOS},
}

var never = &extension{sizes: revisions{0: 0}, match: func(*walk, info) (bool, error) { return false, nil }}

// harmlessTargets do not change where a packet goes, in all revisions: they log, or change fields
// of headers that no match here reads, or whose value is unknown anyway.
var harmlessTargets = map[string]bool{
	"AUDIT": true, "CHECKSUM": true, "CLASSIFY": true, "CONNSECMARK": true, "ECN": true,
	"IDLETIMER": true, "LED": true, "LOG": true, "NFLOG": true, "RATEEST": true, "SECMARK": true,
	"TCPMSS": true, "TCPOPTSTRIP": true, "TEE": true, "TRACE": true, "ULOG": true,
}
