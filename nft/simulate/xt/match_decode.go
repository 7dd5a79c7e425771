package xt

// DecodeMatch decodes a match, by the kernel's name, revision and structure of it; false if
// it is unknown.
func DecodeMatch(name string, number uint32, v6 bool, data []byte) (any, bool) {
	return decode(matches, name, number, v6, data)
}

// matches are the known matches.
var matches = map[revision]format{
	{"comment", 0}:   {1, func(b info, _ bool) any { return Comment{b.text(0, len(b))} }},
	{"nfacct", 0}:    {0, noEffect("nfacct")},
	{"mark", 1}:      {9, func(b info, _ bool) any { return decodeMark(b, false) }},
	{"connmark", 1}:  {9, func(b info, _ bool) any { return decodeMark(b, true) }},
	{"tcp", 0}:       {12, decodeTCP},
	{"udp", 0}:       {9, decodeUDP},
	{"sctp", 0}:      {292, decodeSCTP},
	{"multiport", 1}: {48, decodeMultiPort},
	{"icmp", 0}:      {0, never("icmp")},
	{"icmp6", 0}:     {0, never("icmp6")},
	{"rt", 0}:        {0, never("rt")},
	{"frag", 0}:      {0, never("frag")},
	{"hbh", 0}:       {0, never("hbh")},
	{"dst", 0}:       {0, never("dst")},
	{"srh", 0}:       {0, never("srh")},
	{"srh", 1}:       {0, never("srh")},
	{"addrtype", 0}:  {12, decodeAddrType0},
	{"addrtype", 1}:  {8, decodeAddrType1},
	{"iprange", 1}:   {4*addrLen + 1, decodeIPRange},
	{"state", 0}:     {4, decodeState},
	{"conntrack", 1}: {152, decodeConntrack(1)},
	{"conntrack", 2}: {154, decodeConntrack(2)},
	{"conntrack", 3}: {162, decodeConntrack(3)},
	{"statistic", 0}: {16, decodeStatistic},
	{"recent", 0}:    {211, decodeRecent},
	{"recent", 1}:    {227, decodeRecent},
	{"set", 0}:       {30, decodeSet0},
	{"set", 1}:       {4, decodeSet},
	{"set", 2}:       {4, decodeSet},
	{"set", 3}:       {44, decodeSet3},
	{"set", 4}:       {44, decodeSet4},
	{"helper", 0}:    {4, func(b info, _ bool) any { return Helper{Invert: b.u32(0) != 0} }},
	{"connlabel", 0}: {4, decodeConnLabel},
	{"pkttype", 0}:   {8, func(b info, _ bool) any { return PacketType{Type: uint8(b.u32(0)), Invert: b.u32(4) != 0} }},
	{"length", 0}:    {5, func(b info, _ bool) any { return Length{From: b.u16(0), To: b.u16(2), Invert: b.u8(4) != 0} }},
	{"cgroup", 0}:    {0, func(info, bool) any { return CGroup{} }},
	{"cgroup", 1}:    {0, func(info, bool) any { return CGroup{} }},
	{"cgroup", 2}:    {0, func(info, bool) any { return CGroup{} }},
	{"socket", 0}:    {0, func(info, bool) any { return Socket{} }},
	{"socket", 1}:    {1, decodeSocket},
	{"socket", 2}:    {1, decodeSocket},
	{"socket", 3}:    {1, decodeSocket},
	{"owner", 1}:     {18, decodeOwner},
	{"physdev", 0}:   {66, func(b info, _ bool) any { return PhysDev{Match: b.u8(65), Invert: b.u8(64)} }},
	{"rpfilter", 0}:  {1, decodeRPFilter},
}

func noEffect(name string) func(info, bool) any {
	return func(info, bool) any { return NoEffect{name} }
}

func never(name string) func(info, bool) any {
	return func(info, bool) any { return Never{name} }
}

func decodeMark(b info, connection bool) any {
	return Mark{Value: b.u32(0), Mask: b.u32(4), Connection: connection, Invert: b.u8(8) != 0}
}

// decodeTCP decodes struct xt_tcp.
func decodeTCP(b info, _ bool) any {
	invert := b.u8(11)
	p := Ports{
		Source: b.ports(0), Destination: b.ports(4), Option: b.u8(8), FlagMask: b.u8(9), Flags: b.u8(10),
		InvertSource: invert&1 != 0, InvertDestination: invert&2 != 0, InvertFlags: invert&4 != 0,
	}
	if p.Option == 0 && invert&8 != 0 {
		return nil
	}
	return p
}

// decodeUDP decodes struct xt_udp.
func decodeUDP(b info, _ bool) any {
	invert := b.u8(8)
	return Ports{
		Source: b.ports(0), Destination: b.ports(4), InvertSource: invert&1 != 0,
		InvertDestination: invert&2 != 0,
	}
}

// decodeSCTP decodes struct xt_sctp_info.
func decodeSCTP(b info, _ bool) any {
	const source, destination, chunks = 1, 2, 4
	flags, invert := b.u32(284), b.u32(288)
	p := Ports{
		Source: AnyPort, Destination: AnyPort, InvertSource: invert&flags&source != 0,
		InvertDestination: invert&flags&destination != 0, InvertChunks: invert&chunks != 0,
	}
	if flags&source != 0 {
		p.Source = b.ports(4)
	}
	if flags&destination != 0 {
		p.Destination = b.ports(0)
	}
	if flags&chunks != 0 {
		p.Chunks = &Chunks{How: b.u32(264), Flags: b.u32(280) != 0}
		for i := range p.Chunks.Types {
			p.Chunks.Types[i] = b.u32(8+i/32*4)&(1<<(i%32)) != 0
		}
	}
	return p
}

// decodeMultiPort decodes struct xt_multiport_v1.
func decodeMultiPort(b info, _ bool) any {
	const most = 15 // XT_MULTI_PORTS
	m := MultiPort{Side: Side(b.u8(0)), Invert: b.u8(47) != 0}
	n := int(b.u8(1))
	if m.Side > Either || n > most {
		return nil
	}
	for i := 0; i < n; i++ {
		r := PortRange{b.u16(2 + 2*i), b.u16(2 + 2*i)}
		if isRange := b.u8(32+i) != 0; isRange && i+1 < n {
			i++
			r.To = b.u16(2 + 2*i)
		}
		m.Ports = append(m.Ports, r)
	}
	return m
}

// decodeAddrType0 decodes struct xt_addrtype_info.
func decodeAddrType0(b info, _ bool) any {
	return AddrType{Source: b.u16(0), Destination: b.u16(2), InvertSource: b.u32(4) != 0, InvertDestination: b.u32(8) != 0}
}

// decodeAddrType1 decodes struct xt_addrtype_info_v1.
func decodeAddrType1(b info, _ bool) any {
	const invertSource, invertDestination, limitIn, limitOut = 1, 2, 4, 8
	flags := b.u32(4)
	return AddrType{
		Source: b.u16(0), Destination: b.u16(2), InvertSource: flags&invertSource != 0,
		InvertDestination: flags&invertDestination != 0, OfInterface: flags&(limitIn|limitOut) != 0,
	}
}

// decodeIPRange decodes struct xt_iprange_mtinfo.
func decodeIPRange(b info, v6 bool) any {
	const source, destination, invertSource, invertDestination = 1, 2, 16, 32
	flags := b.u8(4 * addrLen)
	r := IPRange{InvertSource: flags&invertSource != 0, InvertDestination: flags&invertDestination != 0}
	if flags&source != 0 {
		r.Source = AddrRange{b.addr(0, v6), b.addr(addrLen, v6)}
	}
	if flags&destination != 0 {
		r.Destination = AddrRange{b.addr(2*addrLen, v6), b.addr(3*addrLen, v6)}
	}
	return r
}

// decodeState decodes struct xt_state_info. Its bits are those of conntrack, except for
// untracked packets.
func decodeState(b info, _ bool) any {
	const untracked = 1 << 6
	mask := b.u32(0)
	c := Conntrack{
		Flags: ConntrackState,
		State: uint16(mask) & (StateInvalid | StateEstablished | StateRelated | StateNew),
	}
	if mask&untracked != 0 {
		c.State |= StateUntracked
	}
	return c
}

// decodeConntrack returns the function that decodes struct xt_conntrack_mtinfo1 to 3. The last one has
// ranges of ports, in the byte order of the machine.
func decodeConntrack(number int) func(info, bool) any {
	return func(b info, v6 bool) any {
		c := Conntrack{
			Protocol: uint8(b.u16(136)), Flags: ConntrackFlags(b.u16(146)), Invert: ConntrackFlags(b.u16(148)),
			State: uint16(b.u8(150)), Status: uint16(b.u8(151)),
		}
		if number > 1 {
			c.State, c.Status = b.u16(150), b.u16(152)
		}
		for i := range c.Addrs {
			c.Addrs[i] = MaskedAddr{b.addr(2*i*addrLen, v6), b.addr((2*i+1)*addrLen, v6)}
			c.Ports[i] = PortRange{b.be16(138 + 2*i), b.be16(138 + 2*i)}
			if number > 2 {
				c.Ports[i] = PortRange{b.u16(138 + 2*i), b.u16(154 + 2*i)}
			}
		}
		return c
	}
}

// decodeStatistic decodes struct xt_statistic_info.
func decodeStatistic(b info, _ bool) any {
	const random, nth = 0, 1
	s := Statistic{Invert: b.u16(2)&1 != 0}
	switch b.u16(0) {
	case random:
		s.Probability = float64(b.u32(4)) / (1 << 31)
	case nth:
		s.Probability, s.InTurn = 1/(float64(b.u32(4))+1), true
	default:
		return nil
	}
	if s.Probability > 1 {
		return nil
	}
	return s
}

// decodeRecent decodes struct xt_recent_mtinfo and xt_recent_mtinfo_v1, which has a mask.
func decodeRecent(b info, v6 bool) any {
	const set, remove, ttl = 2, 8, 16 // XT_RECENT_*
	flags := b.u8(8)
	r := Recent{
		Name: b.text(10, 200), Set: flags&set != 0, Remove: flags&remove != 0, TTL: flags&ttl != 0,
		Invert: b.u8(9) != 0, Destination: b.u8(210) != 0, Seconds: b.u32(0), Hits: b.u32(4),
	}
	if mask := 212; len(b) >= mask+addrLen {
		r.Mask = b.addr(mask, v6)
	}
	return r
}

// decodeRPFilter decodes struct xt_rpfilter_info.
func decodeRPFilter(b info, _ bool) any {
	flags := b.u8(0)
	return RPFilter{Loose: flags&1 != 0, Mark: flags&2 != 0, AcceptLocal: flags&4 != 0, Invert: flags&8 != 0}
}

// decodeConnLabel decodes struct xt_connlabel_mtinfo.
func decodeConnLabel(b info, _ bool) any {
	const invert, set = 1, 2
	return ConnLabel{Bit: b.u16(0), Invert: b.u16(2)&invert != 0, Set: b.u16(2)&set != 0}
}

// decodeSocket decodes struct xt_socket_mtinfo1 to 3.
func decodeSocket(b info, _ bool) any {
	const transparent, noWildcard = 1, 2
	return Socket{Transparent: b.u8(0)&transparent != 0, NoWildcard: b.u8(0)&noWildcard != 0}
}

// decodeOwner decodes struct xt_owner_match_info.
func decodeOwner(b info, _ bool) any {
	return Owner{Match: b.u8(16), Invert: b.u8(17), HasRoot: b.u32(0) == 0, HasRootGroup: b.u32(8) == 0}
}
