package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/dump"
	"kube-vmap/nft/kernel/kubeproxy"
	"kube-vmap/nft/simulate"
	"kube-vmap/sync"
)

// wanted is what kube-vmap would do now, as the loop knows it.
type wanted struct {
	Ruleset *nft.Ruleset
	State   sync.Snapshot
	// Addresses are all addresses of the node.
	Addresses []netip.Addr
	// StrictSourceRanges is the setting of that name.
	StrictSourceRanges bool
	// NodePortsDefault means that no addresses for node ports are configured.
	NodePortsDefault bool
	// Only are the Services to compare, by name; nil means all.
	Only map[string]bool
}

// A Round is the result of comparing everything once.
type Round struct {
	Mode string `json:"mode"` // of kube-proxy
	// Dormant are the families in which kube-proxy's rules exist, but see no packets now.
	Dormant   []string `json:"dormant,omitempty"`
	Services  int      `json:"services"` // ports of Services
	Frontends int      `json:"frontends"`
	Packets   int      `json:"packets"`
	// Differences are sorted by Service. More is how many were found in addition.
	Differences []Difference `json:"differences"`
	More        int          `json:"more,omitempty"`
	// Took is the time that the round took.
	Took time.Duration `json:"-"`
}

// maxDifferences limits the differences of a round: if the other proxy does nothing, every
// Service differs.
const maxDifferences = 20_000

// ErrNoRules is the error if the other proxy has no rules at all.
var ErrNoRules = errors.New("the kernel has no rules of kube-proxy")

// ErrLegacy is the error if its rules are in iptables-legacy only.
var ErrLegacy = errors.New("kube-proxy's rules are in iptables-legacy, and cannot be compared")

// compareOnce runs one round with the first source that has rules.
func compareOnce(ctx context.Context, in wanted, sources ...ruleSource) (*Round, error) {
	start := time.Now()
	source, theirs, err := openFirst(sources)
	if err != nil {
		return nil, err
	}
	ours, err := dump.NewMemory(in.Ruleset)
	if err != nil {
		return nil, err
	}
	c := &comparer{
		interrupted: ctx.Err, in: in, ours: ours, round: &Round{Mode: source.Mode()},
		network:   newNetwork(in.Addresses, in.State.Node.Addrs),
		conflicts: map[model.Match]string{},
	}
	for _, conflict := range in.State.Conflicts {
		c.conflicts[conflict.Match] = conflict.Winner.String()
	}
	for _, f := range model.Families {
		if theirs[f].Dormant {
			c.round.Dormant = append(c.round.Dormant, f.String())
		}
		if err := c.family(f, theirs[f]); err != nil {
			return nil, err
		}
	}
	c.round.Took = time.Since(start)
	return c.round, nil
}

// openFirst opens the rules of the first source that has some.
func openFirst(sources []ruleSource) (s ruleSource, all [len(model.Families)]*Rules, err error) {
	for _, s = range sources {
		if all, err = openAll(s); !errors.Is(err, ErrNoRules) {
			return s, all, err
		}
	}
	legacy, err := kubeproxy.FindLegacy(0)
	if err == nil && len(legacy) > 0 {
		err = ErrLegacy
	}
	return s, all, cmp.Or(err, ErrNoRules)
}

// openAll opens the rules of both families. A proxy may serve only one.
func openAll(source ruleSource) (all [len(model.Families)]*Rules, err error) {
	found := false
	for _, f := range model.Families {
		rules, err := source.Open(f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			rules = noRules()
		case err != nil:
			return all, fmt.Errorf("read the rules of kube-proxy: %w", err)
		default:
			found = true
		}
		all[f] = rules
	}
	if !found {
		return all, ErrNoRules
	}
	return all, nil
}

// A comparer compares one round.
type comparer struct {
	interrupted func() error
	in          wanted
	ours        *dump.Memory
	network     *network
	conflicts   map[model.Match]string // the owner of a match that several claim
	services    map[model.ServiceName]model.ServiceSnapshot
	round       *Round

	// Of the current family.
	theirs  *Rules
	indexes *simulate.Indexes
	// Of the current Service port.
	sessions [2]*simulate.Session // ours, theirs
}

// A frontend is a destination that one of the rule sets has.
type frontend struct {
	match   model.Match
	service string
	ours    *model.Frontend // nil if only the other proxy has it
}

func (c *comparer) family(f model.Family, theirs *Rules) error {
	c.theirs, c.indexes = theirs, &simulate.Indexes{}
	list := c.frontends(f)
	for len(list) > 0 {
		n := slices.IndexFunc(list, func(o frontend) bool { return o.service != list[0].service })
		if n < 0 {
			n = len(list)
		}
		if err := c.service(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	if c.in.Only != nil && !c.in.Only[""] {
		return nil
	}
	return c.node(f)
}

// frontends returns the destinations that one of the rule sets has, by Service.
func (c *comparer) frontends(f model.Family) []frontend {
	var list []frontend
	ours := map[model.Match]bool{}
	for _, o := range c.in.State.Installed {
		if o.Match.Family == f {
			list = append(list, frontend{o.Match, o.Service.String(), o.Frontend})
			ours[o.Match] = true
		}
	}
	for _, t := range c.theirs.Frontends {
		if !ours[t.Match] {
			list = append(list, frontend{match: t.Match, service: t.Service})
		}
	}
	slices.SortFunc(list, func(a, b frontend) int {
		return cmp.Or(cmp.Compare(a.service, b.service), a.match.Compare(b.match))
	})
	return list
}

// service compares the frontends of one Service port.
func (c *comparer) service(list []frontend) error {
	if c.in.Only != nil && !c.in.Only[list[0].service] {
		return nil
	}
	if err := c.begin(list[0].match.Family); err != nil {
		return err
	}
	c.round.Services++
	var found []Difference
	for i := range list {
		d, err := c.frontend(&list[i])
		if err != nil {
			return err
		}
		c.round.Frontends++
		found = append(found, d...)
	}
	c.report(found)
	return nil
}

// begin drops what was read of the previous Service.
func (c *comparer) begin(f model.Family) (err error) {
	c.theirs.Forget()
	for i, rules := range [...]simulate.Rules{c.ours, c.theirs.Rules} {
		c.sessions[i], err = simulate.NewSession(simulate.Sources{
			Rules: rules, Network: c.network, Connections: c.network, Interrupted: c.interrupted, Indexes: c.indexes,
		}, f)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *comparer) report(found []Difference) {
	found = merge(found)
	room := min(len(found), maxDifferences-len(c.round.Differences))
	c.round.Differences = append(c.round.Differences, found[:room]...)
	c.round.More += len(found) - room
}

// frontend compares one frontend.
func (c *comparer) frontend(f *frontend) ([]Difference, error) {
	to := c.destination(f.match)
	if !to.IsValid() {
		return nil, nil // node ports of a family in which the node has no address
	}
	var out []Difference
	for _, from := range c.clients(f, to.Addr()) {
		d, err := c.explore(f, from, to)
		if err != nil {
			return nil, err
		}
		out = append(out, d...)
	}
	if f.ours != nil && f.ours.Kind != model.KindLoadBalancerIP {
		return out, nil
	}
	ranges, err := c.ranges(f, to)
	return append(out, ranges...), err
}

// destination returns an address and port that the match is about.
func (c *comparer) destination(m model.Match) netip.AddrPort {
	if m.Addr.IsValid() {
		return netip.AddrPortFrom(m.Addr, m.Port)
	}
	for _, a := range c.in.State.NodeAddrs {
		if model.FamilyOf(a) == m.Family {
			return netip.AddrPortFrom(a, m.Port)
		}
	}
	if a := c.network.primary[m.Family]; a.IsValid() {
		return netip.AddrPortFrom(a, m.Port)
	}
	return netip.AddrPort{}
}

// maxHairpins limits how many endpoints of a Service port are clients of it.
const maxHairpins = 64

// clients returns the clients for a frontend. Endpoints on this node ask their own Service,
// because they may get themselves.
func (c *comparer) clients(f *frontend, to netip.Addr) []client {
	rules := c.in.Ruleset.Config()
	list := everyClient(rules, c.network, to)
	if f.ours == nil {
		return list
	}
	if f.ours.Restricted && len(f.ours.Sources) > 0 {
		list = append(list, client{clientAllowed, f.ours.Sources[0].Addr(), uplink})
	}
	if f.ours.Kind == model.KindClusterIP {
		for _, a := range f.ours.Pool.Hairpin[:min(len(f.ours.Pool.Hairpin), maxHairpins)] {
			list = append(list, client{clientEndpoint, a, podLink(rules)})
		}
	}
	return list
}

// explore compares all that may happen to a client's packet.
func (c *comparer) explore(f *frontend, from client, to netip.AddrPort) ([]Difference, error) {
	return c.compare(f, from, to, (*simulate.Session).Explore)
}

// compare compares what happens to a packet. Rules that were deleted while they were read
// make the outcome unknown.
func (c *comparer) compare(
	f *frontend, from client, to netip.AddrPort, run func(*simulate.Session, simulate.Packet, simulate.Link) (simulate.Result, error),
) ([]Difference, error) {
	p := from.packet(to, f.match.Protocol)
	c.round.Packets++
	var both [2]outcome
	for i, s := range c.sessions {
		r, err := run(s, p, from.in)
		switch {
		case i == 1 && errors.Is(err, fs.ErrNotExist):
			both[i] = outcome{unknown: "the rules changed while they were read"}
		case err != nil:
			return nil, err
		default:
			both[i] = newOutcome(r)
		}
	}
	found := differences(&both[0], &both[1], from.name == "" || from.name == clientAllowed)
	for i := range found {
		d := &found[i]
		d.Service, d.Frontend, d.Family = f.service, f.match.String(), f.match.Family.String()
		d.Clients = []string{cmp.Or(from.name, from.addr.String())}
		d.Intended = c.intended(d, f, &both[0], &both[1])
	}
	return found, nil
}

// ranges compares which clients may use a frontend, at the bounds of the source ranges of
// both rule sets.
func (c *comparer) ranges(f *frontend, to netip.AddrPort) ([]Difference, error) {
	var bounds []netip.Addr
	if f.ours != nil {
		bounds = atBounds(f.ours.Sources)
	}
	bounds = tidy(append(bounds, c.theirs.Bounds()...))
	var out []Difference
	for _, a := range bounds {
		if model.FamilyOf(a) != f.match.Family || c.network.isLocal(a) {
			continue
		}
		d, err := c.compare(f, client{addr: a, in: uplink}, to, (*simulate.Session).Check)
		if err != nil {
			return nil, err
		}
		// Which endpoint it is does not matter here, and was compared already.
		out = append(out, slices.DeleteFunc(d, func(d Difference) bool { return d.Kind != KindSourceRanges && d.Kind != KindUnknown })...)
	}
	return out, nil
}
