package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/sync"
)

// wanted is what kube-vmap would do now, as the loop knows it.
type wanted struct {
	*Config
	Ruleset   *nft.Ruleset
	State     sync.Snapshot
	Addresses []netip.Addr // of the node, all of them
}

// maxDifferences limits the differences of a round: if the other proxy does nothing, every
// Service differs.
const maxDifferences = 20_000

// ErrNoRules is the error if the other proxy has no rules at all.
var ErrNoRules = errors.New("the kernel has no rules of kube-proxy")

// ErrLegacy is the error if its rules are in iptables-legacy only.
var ErrLegacy = errors.New("kube-proxy's rules are in iptables-legacy, and cannot be compared")

// compareOnce runs one round with the rules of the first mode that has some.
func compareOnce(ctx context.Context, in wanted, k *dump.Reader) (*Report, error) {
	start := time.Now()
	m, theirs, err := findTheirs(k)
	if err != nil {
		return nil, err
	}
	ours, err := dump.NewMemory(in.Ruleset)
	if err != nil {
		return nil, err
	}
	c := &comparer{
		interrupted: ctx.Err, in: in, ours: ours, report: &Report{Mode: m.name},
		network: newNetwork(in.Addresses, in.State.Node.Addrs), conflicts: map[model.Match]string{},
		services: map[model.ServiceName]model.ServiceSnapshot{},
	}
	for _, conflict := range in.State.Conflicts {
		c.conflicts[conflict.Match] = conflict.Winner.String()
	}
	for _, s := range in.State.Services {
		c.services[s.Name] = s
	}
	for _, f := range model.Families {
		if theirs[f].dormant {
			c.report.Dormant = append(c.report.Dormant, f.String())
		}
		if err := c.family(f, theirs[f]); err != nil {
			return nil, err
		}
	}
	c.report.Took = time.Since(start)
	return c.report, nil
}

// findTheirs opens the rules of the first mode that has some, in one family at least.
func findTheirs(k *dump.Reader) (m *mode, all [len(model.Families)]*kubeProxyRules, err error) {
	for i := range modes {
		found := false
		for _, f := range model.Families {
			rules, err := openTheirs(k, &modes[i], f)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, all, fmt.Errorf("read the rules of kube-proxy: %w", err)
			}
			all[f], found = rules, found || err == nil
		}
		if found {
			return &modes[i], all, nil
		}
	}
	legacy, err := kubeproxy.FindLegacy(0)
	if err == nil && len(legacy) > 0 {
		err = ErrLegacy
	}
	return nil, all, cmp.Or(err, ErrNoRules)
}

type comparer struct {
	interrupted func() error
	in          wanted
	ours        *dump.Memory
	network     *network
	conflicts   map[model.Match]string // the owner of a match that several claim
	services    map[model.ServiceName]model.ServiceSnapshot
	report      *Report

	// Of the current family.
	theirs  *kubeProxyRules
	indexes *simulate.Indexes
	// Of the current Service port.
	sessions [2]*simulate.Session // ours, theirs
}

// A frontend is a destination to compare.
type frontend struct {
	match   model.Match
	service string
	ours    *model.Frontend // nil if only the other proxy has it
	probe   string          // what it is for the node as a whole; empty for that of a Service
}

func (c *comparer) family(f model.Family, theirs *kubeProxyRules) error {
	c.theirs, c.indexes = theirs, &simulate.Indexes{}
	list := c.frontends(f)
	for len(list) > 0 {
		n := slices.IndexFunc(list, func(o frontend) bool { return o.service != list[0].service })
		if n < 0 {
			n = len(list)
		}
		c.report.Services++
		c.report.Frontends += n
		if err := c.service(list[:n]); err != nil {
			return err
		}
		list = list[n:]
	}
	return c.service(c.probes(f))
}

func (c *comparer) frontends(f model.Family) []frontend {
	var list []frontend
	known := map[model.Match]bool{}
	for _, o := range c.in.State.Installed {
		if o.Match.Family == f {
			list = append(list, frontend{match: o.Match, service: o.Service.String(), ours: o.Frontend})
			known[o.Match] = true
		}
	}
	for _, t := range c.theirs.frontends {
		if !known[t.match] {
			list = append(list, t)
			known[t.match] = true
		}
	}
	slices.SortFunc(list, func(a, b frontend) int {
		return cmp.Or(cmp.Compare(a.service, b.service), a.match.Compare(b.match))
	})
	return list
}

// service compares the frontends of one Service port, and drops what was read of the previous one.
func (c *comparer) service(list []frontend) (err error) {
	c.theirs.forget()
	for i, rules := range [...]simulate.Rules{c.ours, c.theirs} {
		c.sessions[i], err = simulate.NewSession(simulate.Sources{
			Rules: rules, Network: c.network, Connections: c.network, Interrupted: c.interrupted, Indexes: c.indexes,
		}, c.theirs.family)
		if err != nil {
			return err
		}
	}
	var found []Difference
	for i := range list {
		d, err := c.frontend(&list[i])
		if err != nil {
			return err
		}
		found = append(found, d...)
	}
	c.report.add(found)
	return nil
}

// frontend compares one frontend: what clients of each kind experience, and which clients may use
// it, at the bounds of its source ranges.
func (c *comparer) frontend(f *frontend) (out []Difference, err error) {
	to := c.destination(f.match)
	if !to.IsValid() {
		return nil, nil // node ports of a family in which the node has no address
	}
	for _, from := range c.clients(f, to.Addr()) {
		d, err := c.compare(f, from, to)
		if err != nil {
			return nil, err
		}
		out = append(out, d...)
	}
	if f.ours == nil || f.ours.Kind != model.KindLoadBalancerIP {
		return out, nil
	}
	for _, a := range atBounds(f.ours.Sources) {
		if model.FamilyOf(a) != f.match.Family || c.network.isLocal(a) {
			continue
		}
		d, err := c.compare(f, client{addr: a, in: uplink}, to)
		if err != nil {
			return nil, err
		}
		// Which endpoint it is does not matter here, and was compared already.
		out = append(out, slices.DeleteFunc(d, func(d Difference) bool {
			return d.Kind != KindSourceRanges && d.Kind != KindUnknown
		})...)
	}
	return out, nil
}

// destination returns an address and port that the match is about.
func (c *comparer) destination(m model.Match) netip.AddrPort {
	for _, a := range append([]netip.Addr{m.Addr}, append(slices.Clone(c.in.State.NodeAddrs),
		c.network.primary[m.Family])...) {
		if a.IsValid() && model.FamilyOf(a) == m.Family {
			return netip.AddrPortFrom(a, m.Port)
		}
	}
	return netip.AddrPort{}
}

// compare compares what happens to a packet. Of a client at a bound of source ranges, only whether
// it is served matters. Rules that were deleted while they were read make the outcome unknown.
func (c *comparer) compare(f *frontend, from client, to netip.AddrPort) ([]Difference, error) {
	p := simulate.Packet{From: from.addr, FromPort: clientPort, To: to, Protocol: f.match.Protocol}
	run := (*simulate.Session).Explore
	if from.name == "" {
		run = (*simulate.Session).Check
	}
	c.report.Packets++
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
		d.Service, d.Frontend, d.Family = f.service, strings.TrimSpace(f.probe+" "+f.match.String()), f.match.Family.String()
		d.Clients = []string{cmp.Or(from.name, from.addr.String())}
		d.reason, d.Intended = c.intended(d, f, &both[0], &both[1])
	}
	return found, nil
}

// Probes of the node as a whole.
const (
	probePort     = "unused port of a ClusterIP"
	probeAddr     = "unused address of a ServiceCIDR"
	probeNodePort = "node port at another address"
)

// maxProbes limits the addresses of the node and the ServiceCIDRs that are tried.
const maxProbes = 32

// probes returns destinations that belong to no Service: ports of a ClusterIP and addresses of
// ServiceCIDRs that are not used, and node ports at other addresses of the node.
func (c *comparer) probes(f model.Family) (out []frontend) {
	used := map[model.Match]bool{}
	taken := map[netip.Addr]bool{}
	var clusterIP, nodePort *model.Frontend
	least := func(a *model.Frontend, b *model.Frontend) *model.Frontend {
		if a == nil || b.Match.Compare(a.Match) < 0 {
			return b
		}
		return a
	}
	for _, o := range c.in.State.Installed {
		used[o.Match], taken[o.Match.Addr] = true, true
		switch {
		case o.Match.Family != f:
		case o.Kind == model.KindClusterIP:
			clusterIP = least(clusterIP, o.Frontend)
		case o.Kind == model.KindNodePort && o.Verdict == model.VerdictBalance:
			nodePort = least(nodePort, o.Frontend)
		}
	}
	add := func(what string, m model.Match) { out = append(out, frontend{match: m, probe: what}) }
	if clusterIP != nil {
		m := clusterIP.Match
		for m.Port = 9; used[m]; m.Port++ { // discard, which hardly any Service has
		}
		add(probePort, m)
	}
	for _, p := range c.in.Ruleset.ServiceCIDRs() {
		if last := model.LastAddr(p); model.FamilyOf(last) == f && !taken[last.Prev()] && p.Contains(last.Prev()) {
			add(probeAddr, model.Match{Family: f, Addr: last.Prev(), Protocol: model.TCP, Port: 9})
		}
	}
	if nodePort != nil {
		compared := c.destination(nodePort.Match).Addr()
		for _, a := range c.in.Addresses {
			if m := nodePort.Match; model.FamilyOf(a) == f && a != compared && !a.IsLoopback() && !a.IsLinkLocalUnicast() &&
				!taken[a] {
				m.Addr = a
				add(probeNodePort, m)
			}
		}
	}
	return out[:min(len(out), maxProbes)]
}
