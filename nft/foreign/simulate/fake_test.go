package simulate

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/foreign/simulate/path"
)

// A fake is a node with the rules of a test. All destinations are reached by eth0, and the
// node has the addresses in local.
type fake struct {
	bases []BaseChain
	rules map[Chain][]Rule
	sets  map[string]map[string]Element
	shape map[string]*Set
	local []netip.Addr
	links map[netip.Addr]Link // of other destinations than by eth0
	via   map[netip.Addr]netip.Addr
	// bridged is true if all links are bridges with br_netfilter.
	bridged bool
	flows   []Flow
	asked   int
	// walks is the number of walks so far; the run is interrupted at stopAfter, if that is
	// not zero.
	walks, stopAfter int
}

var errInterrupted = errors.New("interrupted")

func (f *fake) sources() Sources {
	var host Host
	if f.bridged {
		host = bridges{}
	}
	return Sources{Rules: f, Network: f, Connections: f, Host: host, Own: f, Interrupted: func() error {
		if f.walks++; f.walks == f.stopAfter {
			return errInterrupted
		}
		return nil
	}}
}

// bridges is a host whose links are bridges with br_netfilter.
type bridges struct{}

func (bridges) Sysctl(string) string       { return "1" }
func (bridges) Links() ([]Link, error)     { return nil, nil }
func (bridges) Ports(Link) ([]Port, error) { return []Port{{Hairpin: true}}, nil }

func (f *fake) Has(t Table) bool { return t == oursTable }

func (f *fake) Slots(Chain) string { return "" }

// Note notes what happens to a packet, and that nothing serves one that our table rejects.
func (f *fake) Note(_ Packet, events []Event) (n Notes, _ error) {
	for i := range events {
		if e := &events[i]; !strings.HasSuffix(e.Text, ": ") && e.Text != "" {
			n.Steps, n.NoEndpoint = append(n.Steps, e.Step), e.Own && e.Kind == path.StepReject
		}
	}
	return n, nil
}

func (f *fake) BaseChains(model.Family) ([]BaseChain, error) { return f.bases, nil }

func (f *fake) Rules(c Chain) ([]Rule, error) { f.asked++; return f.rules[c], nil }

func (f *fake) Set(_ Table, name string) (*Set, error) {
	s, ok := f.shape[name]
	if !ok {
		return nil, unix.ENOENT
	}
	s.Name = name
	s.Find = func(key []byte) (Element, bool, error) {
		f.asked++
		e, found := f.sets[name][string(key)]
		return e, found, nil
	}
	return s, nil
}

var (
	eth0 = Link{Index: 2, Name: "eth0"}
	veth = Link{Index: 3, Name: "veth"}
)

func (f *fake) Route(w RouteQuery) (Route, error) {
	if w.To == nowhere {
		return Route{}, ErrNoRoute
	}
	kind, _ := f.AddressType(w.To)
	r := Route{Local: kind == unix.RTN_LOCAL, Out: eth0, Via: f.via[w.To]}
	if l, ok := f.links[w.To]; ok {
		r.Out = l
	}
	return r, nil
}

func (f *fake) AddressType(a netip.Addr) (uint32, error) {
	for _, l := range f.local {
		if l == a {
			return unix.RTN_LOCAL, nil
		}
	}
	return unix.RTN_UNICAST, nil
}

func (f *fake) Source(Link, netip.Addr) (netip.Addr, error) {
	if len(f.local) == 0 {
		return netip.Addr{}, errors.New("no address")
	}
	return f.local[0], nil
}

func (f *fake) Flows(Packet) ([]Flow, error) { return f.flows, nil }

var (
	client  = netip.MustParseAddr("192.0.2.9")
	nodeIP  = netip.MustParseAddr("192.0.2.1")
	service = netip.MustParseAddrPort("10.96.0.10:80")
	nowhere = netip.MustParseAddr("203.0.113.1")
	sample  = Packet{From: client, FromPort: 4000, To: service, Protocol: model.TCP}

	oursTable  = Table{"ip", "own"}
	otherTable = Table{"inet", "firewall"}
)

func (f *fake) chain(t Table, name, kind string, h Hook, priority int32, rules ...[]any) {
	c := Chain{t, name}
	f.bases = append(f.bases, BaseChain{Chain: c, Type: kind, Hook: h, Priority: priority})
	f.add(c, rules...)
}

func (f *fake) add(c Chain, rules ...[]any) {
	if f.rules == nil {
		f.rules = map[Chain][]Rule{}
	}
	for i, r := range rules {
		f.rules[c] = append(f.rules[c], Rule{Handle: uint64(i + 1), Expressions: r})
	}
}

// node returns a node with our table, which has a chain without effect.
func node() *fake {
	f := &fake{local: []netip.Addr{nodeIP}, shape: map[string]*Set{}, sets: map[string]map[string]Element{}}
	f.chain(oursTable, "filter-input", "filter", HookInput, 0, []any{&expr.Counter{}})
	return f
}

// to returns expressions that translate the destination.
func to(a netip.AddrPort) []any {
	return []any{
		&expr.Immediate{Register: unix.NFT_REG_1, Data: a.Addr().AsSlice()},
		&expr.Immediate{Register: unix.NFT_REG_2, Data: []byte{byte(a.Port() >> 8), byte(a.Port())}},
		&expr.NAT{Type: expr.NATTypeDestNAT, RegAddrMin: unix.NFT_REG_1, RegProtoMin: unix.NFT_REG_2},
	}
}

// picks adds a map from numbers to chains, and returns a rule that goes to one at random.
func (f *fake) picks(chains ...string) []any {
	f.shape["picks"] = &Set{KeyType: uint32(typeMark), KeyLen: 4, Anonymous: true}
	f.sets["picks"] = map[string]Element{}
	for n, chain := range chains {
		f.sets["picks"][string(nativeBytes(uint32(n)))] = Element{Verdict: verdictOf(expr.VerdictGoto, chain)}
	}
	return []any{
		&expr.Numgen{Register: unix.NFT_REG_1, Modulus: uint32(len(chains)), Type: unix.NFT_NG_RANDOM},
		&expr.Lookup{SourceRegister: unix.NFT_REG_1, DestRegister: 0, IsDestRegSet: true, SetName: "picks"},
	}
}

// sets returns expressions that set the packet's mark.
func sets(mark uint32) []any {
	return []any{
		&expr.Immediate{Register: unix.NFT_REG_1, Data: nativeBytes(mark)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: unix.NFT_REG_1},
	}
}

func verdictOf(kind expr.VerdictKind, chain string) *expr.Verdict {
	return &expr.Verdict{Kind: kind, Chain: chain}
}

func only(t *testing.T, f *fake, p Packet) (path.Outcome, Result) {
	t.Helper()
	w, err := Run(f.sources(), p, Link{})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Outcomes) != 1 {
		t.Fatalf("%d outcomes: %+v", len(w.Outcomes), w.Outcomes)
	}
	return w.Outcomes[0], w
}
