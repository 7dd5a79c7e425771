package shadow

import (
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/nft/simulate"
)

// Names of what is compared for the node as a whole, instead of that of a frontend.
const (
	nodeUnusedPort = "unused port of a ClusterIP"
	nodeUnusedAddr = "unused address of a ServiceCIDR"
	nodeAddress    = "node port at another address"
)

// node compares what belongs to no Service: ports of a ClusterIP and addresses of ServiceCIDRs
// that are not used, and on which addresses node ports answer.
func (c *comparer) node(f model.Family) error {
	if err := c.begin(f); err != nil {
		return err
	}
	used := map[model.Match]bool{}
	taken := map[netip.Addr]bool{}
	var clusterIP, nodePort *model.Frontend
	for _, o := range c.in.State.Installed {
		used[o.Match], taken[o.Match.Addr] = true, true
		switch {
		case o.Match.Family != f:
		case o.Kind == model.KindClusterIP && (clusterIP == nil || o.Match.Compare(clusterIP.Match) < 0):
			clusterIP = o.Frontend
		case o.Kind == model.KindNodePort && o.Verdict == model.VerdictBalance && (nodePort == nil || o.Match.Compare(nodePort.Match) < 0):
			nodePort = o.Frontend
		}
	}
	var found []Difference
	probe := func(name string, m model.Match) error {
		to := netip.AddrPortFrom(m.Addr, m.Port)
		for _, from := range everyClient(c.in.Ruleset.Config(), c.network, m.Addr) {
			d, err := c.compare(&frontend{match: m, service: ""}, from, to, (*simulate.Session).Explore)
			if err != nil {
				return err
			}
			for i := range d {
				d[i].Frontend = name + " " + m.String()
				d[i].Intended = c.intendedForNode(name, &d[i])
			}
			found = append(found, d...)
		}
		return nil
	}
	for _, p := range c.probes(f, clusterIP, nodePort, used, taken) {
		if err := probe(p.name, p.match); err != nil {
			return err
		}
	}
	c.report(found)
	return nil
}

// A nodeProbe is a destination to compare for the node as a whole.
type nodeProbe struct {
	name  string
	match model.Match
}

// maxProbes limits the addresses of the node and the ServiceCIDRs that are tried.
const maxProbes = 32

func (c *comparer) probes(
	f model.Family, clusterIP, nodePort *model.Frontend, used map[model.Match]bool, taken map[netip.Addr]bool,
) (out []nodeProbe) {
	if clusterIP != nil {
		m := clusterIP.Match
		for m.Port = 9; used[m]; m.Port++ { // discard, which hardly any Service has
		}
		out = append(out, nodeProbe{nodeUnusedPort, m})
	}
	for _, p := range c.in.Ruleset.ServiceCIDRs() {
		if last := model.LastAddr(p); model.FamilyOf(last) == f && !taken[last.Prev()] && p.Contains(last.Prev()) {
			out = append(out, nodeProbe{nodeUnusedAddr, model.Match{Family: f, Addr: last.Prev(), Protocol: model.TCP, Port: 9}})
		}
	}
	if nodePort != nil {
		compared := c.destination(nodePort.Match).Addr()
		for _, a := range c.in.Addresses {
			if m := nodePort.Match; model.FamilyOf(a) == f && a != compared && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !taken[a] {
				m.Addr = a
				out = append(out, nodeProbe{nodeAddress, m})
			}
		}
	}
	return out[:min(len(out), maxProbes)]
}
