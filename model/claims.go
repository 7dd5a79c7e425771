package model

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// Conflict is a claim that lost: Loser wants a match that Winner holds. The
// loser's frontend is not programmed while that is so.
type Conflict struct {
	Match         Match
	Winner, Loser ServicePortName
}

// claims decides which Service holds a match that several claim. Kubernetes
// does not stop two Services from listing the same external address, nor a
// folder from listing the same ClusterIP twice. The ClusterIP's owner wins, then
// the load balancer address's, then the older Service, at any time and on every
// node; when the winner goes, the next one takes over.
//
// A claim costs the logarithm of how many others there are at its match: many
// Services may list one address, and each of them many.
type claims struct {
	asked map[Match][]claim // in the order of compare: the first wins
	// settled are the winners and lost counts the losers of contested matches, both
	// as of the last settlement. losers is the sum of lost.
	settled map[Match]*Frontend
	lost    map[Match]int
	losers  int
	// nodeAddrs serve node ports; nodePorts is how many of settled are such.
	nodeAddrs map[netip.Addr]struct{}
	nodePorts [len(Families)]int
	// peaks are what asked, settled and lost held at most.
	peaks [3]int
}

// claim is one Service's wish for a match.
type claim struct {
	service  *Service
	frontend *Frontend
}

func newClaims() claims {
	return claims{asked: map[Match][]claim{}, settled: map[Match]*Frontend{}, lost: map[Match]int{}}
}

// compare orders the claims of one match; the winner comes first. What a cluster
// gave out wins over what a Service's author wrote: else an older Service could
// list addresses that are not given out yet as its external ones, and get the
// traffic of whoever is given them (CVE-2020-8554).
func (c claim) compare(o claim) int {
	return cmp.Or(
		cmp.Compare(c.frontend.Kind.authority(), o.frontend.Kind.authority()),
		c.service.compareAge(o.service),
	)
}

// authority is smaller the fewer may write addresses of the kind: the API server
// gives out ClusterIPs and node ports, controllers write addresses of load balancers,
// and everybody who may make Services writes external IPs.
func (k Kind) authority() int {
	switch k {
	case KindLoadBalancerIP:
		return 1
	case KindExternalIP:
		return 2
	}
	return 0
}

// find returns the index of a claim among those of its match, false if it is not
// there. Claims that compare alike are one Service's, in the order of its ports.
func (c *claims) find(cl claim) (int, bool) {
	asked := c.asked[cl.frontend.Match]
	i, _ := slices.BinarySearchFunc(asked, cl, claim.compare)
	for ; i < len(asked) && asked[i].frontend != cl.frontend; i++ {
		if asked[i].compare(cl) != 0 {
			return i, false
		}
	}
	return i, i < len(asked)
}

// enter adds a claim.
func (c *claims) enter(cl claim) {
	i, _ := c.find(cl)
	m := cl.frontend.Match
	c.asked[m] = slices.Insert(c.asked[m], i, cl)
}

// withdraw removes a claim.
func (c *claims) withdraw(cl claim) {
	m := cl.frontend.Match
	i, found := c.find(cl)
	switch {
	case !found:
	case len(c.asked[m]) == 1:
		delete(c.asked, m)
	default:
		c.asked[m] = slices.Delete(c.asked[m], i, i+1)
	}
}

// first is the claim that comes first at the match, or nil.
func (c *claims) first(m Match) *claim {
	if asked := c.asked[m]; len(asked) > 0 {
		return &asked[0]
	}
	return nil
}

// holder is the claim that holds the match, or nil, and how many claims lose it.
// A node port, which the API server gave out, holds its port on the addresses
// that serve node ports, whoever claims such an address as an external one.
func (c *claims) holder(m Match) (holder *claim, losers int) {
	first := c.first(m)
	if first == nil {
		return nil, 0
	}
	if port := c.nodePortOver(m); port != nil && !first.frontend.OwnsPool() {
		return port, len(c.asked[m]) - c.alsoClaims(m, port)
	}
	return first, len(c.asked[m]) - 1
}

// alsoClaims counts the claims of a match that are the node port's own Service
// port's, which loses nothing to itself.
func (c *claims) alsoClaims(m Match, port *claim) int {
	n := 0
	for _, kind := range [...]Kind{KindLoadBalancerIP, KindExternalIP} {
		own := claim{port.service, &Frontend{Match: m, Kind: kind}}
		asked := c.asked[m]
		i, _ := slices.BinarySearchFunc(asked, own, claim.compare)
		for ; i < len(asked) && asked[i].compare(own) == 0; i++ {
			if asked[i].frontend.Service == port.frontend.Service {
				n++
			}
		}
	}
	return n
}

// nodePortOver is the node port that serves the match, or nil.
func (c *claims) nodePortOver(m Match) *claim {
	if _, ours := c.nodeAddrs[m.Addr]; !ours {
		return nil
	}
	return c.first(m.atNodePort())
}

// atNodePort is the match of the node port of the same number.
func (m Match) atNodePort() Match { return Match{Family: m.Family, Protocol: m.Protocol, Port: m.Port} }

// winner is the frontend to program for the match, or nil.
func (c *claims) winner(m Match) *Frontend {
	if holder, _ := c.holder(m); holder != nil && holder.frontend.Match == m {
		return holder.frontend
	}
	return nil
}

// setNodeAddrs replaces the addresses that serve node ports and returns the
// matches whose holder that may change. It looks at all claims.
func (c *claims) setNodeAddrs(addrs []netip.Addr) []Match {
	before := c.nodeAddrs
	c.nodeAddrs = make(map[netip.Addr]struct{}, len(addrs))
	for _, a := range addrs {
		c.nodeAddrs[a] = struct{}{}
	}
	var touched []Match
	for m := range c.asked {
		_, was := before[m.Addr]
		_, is := c.nodeAddrs[m.Addr]
		if was != is {
			touched = append(touched, m)
		}
	}
	return touched
}

// beside returns the matches whose holder may change with that of a node port.
func (c *claims) beside(m Match) []Match {
	if !m.nodePort() {
		return nil
	}
	var touched []Match
	for a := range c.nodeAddrs {
		m.Addr = a
		if FamilyOf(a) == m.Family && len(c.asked[m]) > 0 {
			touched = append(touched, m)
		}
	}
	return touched
}

// settle decides one match and notes in the changes what that changed. It returns
// the frontend that held the match until now, or nil.
func (c *claims) settle(m Match, out *Changes) (before *Frontend) {
	before, after := c.settled[m], c.winner(m)
	switch {
	case after != nil:
		if before == nil && m.nodePort() {
			c.nodePorts[m.Family]++
		}
		c.settled[m] = after
		if before == nil || !before.equal(after) {
			out.Set = append(out.Set, *after)
		}
	case before != nil:
		out.Gone = append(out.Gone, m)
		delete(c.settled, m)
		if m.nodePort() {
			c.nodePorts[m.Family]--
		}
	}
	_, losers := c.holder(m)
	c.losers += losers - c.lost[m]
	if losers > 0 {
		c.lost[m] = losers
	} else {
		delete(c.lost, m)
	}
	return before
}

// shrink gives back the room of claims that are gone.
func (c *claims) shrink() {
	c.asked = Shrink(c.asked, &c.peaks[0])
	c.settled = Shrink(c.settled, &c.peaks[1])
	c.lost = Shrink(c.lost, &c.peaks[2])
}

// conflict is the conflict of a claim that loses its match; false if it does not.
func (c *claims) conflict(cl claim) (Conflict, bool) {
	m := cl.frontend.Match
	holder, _ := c.holder(m)
	if holder == nil || holder.frontend.Service == cl.frontend.Service {
		return Conflict{}, false
	}
	return Conflict{m, holder.frontend.Service, cl.frontend.Service}, true
}

// conflicts lists all there are, in no order.
func (c *claims) conflicts() []Conflict {
	out := make([]Conflict, 0, c.losers)
	for m := range c.lost {
		for _, cl := range c.asked[m] {
			if lost, loses := c.conflict(cl); loses {
				out = append(out, lost)
			}
		}
	}
	return out
}

// winners lists what was settled last, sorted by Match.
func (c *claims) winners() []Frontend {
	out := make([]Frontend, 0, len(c.settled))
	for _, m := range slices.SortedFunc(maps.Keys(c.settled), Match.Compare) {
		out = append(out, *c.settled[m])
	}
	return out
}
