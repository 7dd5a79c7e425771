package nft

import (
	"net/netip"
	"strconv"
	"strings"
	"unique"

	"kube-vmap/model"
)

// Prefixes of names: of chains that node ports lead to, and of chains and sets with endpoints
// of this node only.
const (
	nodePortPrefix = "node-port-"
	localPrefix    = "local-"
)

// Name returns the chain's name in the table, "node-port-external-rr-3" for instance. A chain
// of another program, of [ChainUnknown], has no name here and is never written.
func (id ChainID) Name() string { return string(id.AppendName(nil)) }

// AppendName appends the chain's name. Every element of a dispatch map has one, so names are
// not stored but made where they are written.
func (id ChainID) AppendName(b []byte) []byte {
	switch {
	case id.Kind >= chainKinds:
		return append(b, "(not ours)"...)
	case id.Kind < baseChains:
		return append(b, chainSchema[id.Kind].name...)
	}
	if id.NodePort {
		b = append(b, nodePortPrefix...)
	}
	if id.Local {
		b = append(b, localPrefix...)
	}
	b = append(b, chainWord(id.Kind, id.Method)...)
	if id.Kind.single() {
		return b
	}
	b = append(b, '-')
	if id.Kind == ChainStickyEndpoint {
		return id.Sticky.Value().appendName(b)
	}
	return strconv.AppendUint(b, uint64(id.N), 10)
}

// single reports whether there is at most one chain of a kind that comes with use.
func (k ChainKind) single() bool { return k == ChainStickyFound || k == ChainNATInput }

// chainWord is the name of a kind of chain without number and prefixes. It has the method
// unless that is random.
func chainWord(kind ChainKind, m method) string { return chainWords[kind][m] }

var chainWords = func() (words [chainKinds][methods]string) {
	for kind := baseChains; kind < chainKinds; kind++ {
		for m := range methods {
			words[kind][m] = chainSchema[kind].name
			switch {
			case kind == ChainBalance:
				words[kind][m] = methodSchema[m].name
			case m != pickRandom:
				words[kind][m] += "-" + methodSchema[m].name
			}
		}
	}
	return words
}()

// appendName appends "10800s-tcp-10.1.0.7-8080". Names have no colons, so that
// IPv6 addresses are written with dots.
func (s Sticky) appendName(b []byte) []byte {
	b = strconv.AppendUint(b, uint64(s.Seconds), 10)
	b = append(b, 's', '-')
	b = append(b, s.Protocol.String()...)
	b = append(b, '-')
	at := len(b)
	b = s.Endpoint.Addr().AppendTo(b)
	for i := at; i < len(b); i++ {
		if b[i] == ':' {
			b[i] = '.'
		}
	}
	b = append(b, '-')
	return strconv.AppendUint(b, uint64(s.Endpoint.Port()), 10)
}

// ChainNamed returns the chain of that name. It is of kind [ChainUnknown] if it is not one of
// ours.
func ChainNamed(f model.Family, name string) ChainID {
	for kind := range baseChains {
		if chainSchema[kind].name == name {
			return ChainID{Family: f, Kind: kind}
		}
	}
	id := ChainID{Family: f}
	rest := name
	rest, id.NodePort = strings.CutPrefix(rest, nodePortPrefix)
	rest, id.Local = strings.CutPrefix(rest, localPrefix)
	if s, ok := stickyNamed(f, rest); ok {
		id.Kind, id.Sticky = ChainStickyEndpoint, unique.Make(s)
		return id.orUnknown(name)
	}
	for kind := baseChains; kind < chainKinds; kind++ {
		if kind.single() && rest == chainSchema[kind].name {
			id.Kind = kind
			return id.orUnknown(name)
		}
	}
	i := strings.LastIndexByte(rest, '-')
	n, err := strconv.ParseUint(rest[i+1:], 10, 32)
	if i < 0 || err != nil {
		return ChainID{Family: f, Kind: ChainUnknown}
	}
	id.N = uint32(n)
	id.Kind, id.Method = kindNamed(rest[:i])
	return id.orUnknown(name)
}

// orUnknown returns the chain if its name is exactly that, and else ChainUnknown.
func (id ChainID) orUnknown(name string) ChainID {
	if id.Name() != name {
		return ChainID{Family: id.Family, Kind: ChainUnknown}
	}
	return id
}

// kindNamed returns the kind and method of a [chainWord].
func kindNamed(word string) (ChainKind, method) {
	for kind := baseChains; kind < chainKinds; kind++ {
		for m := range methods {
			if kind != ChainStickyEndpoint && chainWord(kind, m) == word {
				return kind, m
			}
		}
	}
	return ChainUnknown, 0
}

// stickyNamed reads "sticky-10800s-tcp-10.1.0.7-8080". The caller compares this name with that
// of the result, and so finds invalid numbers.
func stickyNamed(f model.Family, name string) (s Sticky, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 5 || parts[0] != chainSchema[ChainStickyEndpoint].name {
		return s, false
	}
	n, _ := strconv.ParseUint(strings.TrimSuffix(parts[1], "s"), 10, 32)
	text := parts[3]
	if f == model.IPv6 {
		text = strings.ReplaceAll(text, ".", ":")
	}
	addr, err := netip.ParseAddr(text)
	port, _ := strconv.ParseUint(parts[4], 10, 16)
	s = Sticky{Endpoint: netip.AddrPortFrom(addr, uint16(port)), Seconds: uint32(n)}
	known := false
	for _, p := range model.Protocols {
		if p.String() == parts[2] {
			s.Protocol, known = p, true
		}
	}
	return s, known && err == nil
}
