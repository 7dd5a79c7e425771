package model

import (
	"cmp"
	"net/netip"
	"slices"
)

// Conflict is a lost claim: Loser claims a match that Winner holds. Until that ends, the
// loser's frontend is not programmed.
type Conflict struct {
	Match         Match
	Winner, Loser ServicePortName
}

// claims decides which Service holds a match that several claim. Kubernetes allows two
// Services with the same external address, and a folder of manifests may have two with
// the same ClusterIP. A ClusterIP wins over a load balancer address, which wins over an
// external IP. Then the older Service wins, at any time and on every node. When the
// winner is removed, the next one takes over.
//
// To add or remove a claim costs the logarithm of the number of claims of its match:
// many Services may list one address, and each of them many.
type claims struct {
	byMatch map[Match][]claim // sorted by compare: the first wins
	// winners holds the winner and loserCounts the number of losers of each match, both
	// as of its last resolve. loserTotal is the sum of loserCounts.
	winners     map[Match]*Frontend
	loserCounts map[Match]int
	loserTotal  int
	// nodeAddrs are the addresses that serve node ports; nodePorts is how many node
	// ports are served.
	nodeAddrs NodeAddrs
	nodePorts [len(Families)]int
	// peaks are the largest sizes of byMatch, winners and loserCounts; see Shrink.
	peaks [3]int
}

// claim is one frontend that claims its match.
type claim struct {
	service  *Service
	frontend *Frontend
}

// compare orders the claims of one match, the winner first. An address that the cluster
// assigned wins over one that a Service's author wrote. Otherwise an older Service
// could list unassigned addresses as external IPs and receive the traffic of the
// Services that they are assigned to later (CVE-2020-8554).
func (c claim) compare(o claim) int {
	return cmp.Or(
		cmp.Compare(c.frontend.Kind.precedence(), o.frontend.Kind.precedence()),
		c.service.compareAge(o.service),
	)
}

// precedence is lower the fewer users may set addresses of the kind: the API server
// assigns ClusterIPs and node ports, controllers write addresses of load balancers, and
// everyone who may create Services writes external IPs.
func (k Kind) precedence() int {
	switch k {
	case KindLoadBalancerIP:
		return 1
	case KindExternalIP:
		return 2
	}
	return 0
}

// find returns the index of a claim among the claims of its match, or else where it
// belongs and false. Claims that compare as equal belong to one Service and are in the
// order of its ports.
func (c *claims) find(cl claim) (int, bool) {
	list := c.byMatch[cl.frontend.Match]
	i, _ := slices.BinarySearchFunc(list, cl, claim.compare)
	for ; i < len(list) && list[i].compare(cl) == 0; i++ {
		if list[i].frontend == cl.frontend {
			return i, true
		}
	}
	return i, false
}

func (c *claims) add(cl claim) {
	i, _ := c.find(cl)
	m := cl.frontend.Match
	c.byMatch[m] = slices.Insert(c.byMatch[m], i, cl)
}

func (c *claims) remove(cl claim) {
	m := cl.frontend.Match
	i, found := c.find(cl)
	switch {
	case !found:
	case len(c.byMatch[m]) == 1:
		delete(c.byMatch, m)
	default:
		c.byMatch[m] = slices.Delete(c.byMatch[m], i, i+1)
	}
}

// first returns the first claim of the match, or nil.
func (c *claims) first(m Match) *claim {
	if list := c.byMatch[m]; len(list) > 0 {
		return &list[0]
	}
	return nil
}

// holder returns the claim that holds the match, or nil, and the number of claims that
// lose it. A node port, which the API server assigned, holds its port on the
// addresses that serve node ports, even if a Service claims such an address as an
// external one.
func (c *claims) holder(m Match) (holder *claim, losers int) {
	first := c.first(m)
	if first == nil {
		return nil, 0
	}
	if port := c.nodePortFor(m); port != nil && !first.frontend.IsClusterIP() {
		return port, len(c.byMatch[m]) - c.ownClaims(m, port)
	}
	return first, len(c.byMatch[m]) - 1
}

// ownClaims counts the claims of a match by the Service port that has the node port.
// They do not lose, because a Service port does not conflict with itself.
func (c *claims) ownClaims(m Match, port *claim) int {
	n := 0
	for _, kind := range [...]Kind{KindLoadBalancerIP, KindExternalIP} {
		own := claim{port.service, &Frontend{Match: m, Kind: kind}}
		list := c.byMatch[m]
		i, _ := slices.BinarySearchFunc(list, own, claim.compare)
		for ; i < len(list) && list[i].compare(own) == 0; i++ {
			if list[i].frontend.Service == port.frontend.Service {
				n++
			}
		}
	}
	return n
}

// nodePortFor returns the node port that serves the match, or nil.
func (c *claims) nodePortFor(m Match) *claim {
	if !c.nodeAddrs.Has(m.Addr) {
		return nil
	}
	return c.first(m.atNodePort())
}

// atNodePort returns the match of the node port with the same number.
func (m Match) atNodePort() Match { return Match{Family: m.Family, Protocol: m.Protocol, Port: m.Port} }

// winner returns the frontend to program for the match, or nil.
func (c *claims) winner(m Match) *Frontend {
	if holder, _ := c.holder(m); holder != nil && holder.frontend.Match == m {
		return holder.frontend
	}
	return nil
}

// setNodeAddrs replaces the addresses that serve node ports. It looks at all claims and
// returns the matches whose holder may change.
func (c *claims) setNodeAddrs(addrs []netip.Addr) []Match {
	before := c.nodeAddrs
	c.nodeAddrs = slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare)
	var touched []Match
	for m := range c.byMatch {
		if before.Has(m.Addr) != c.nodeAddrs.Has(m.Addr) {
			touched = append(touched, m)
		}
	}
	return touched
}

// coveredBy returns the claimed matches whose holder may change together with the holder
// of the node port m, or nothing if m is not a node port.
func (c *claims) coveredBy(m Match) []Match {
	if !m.nodePort() {
		return nil
	}
	var touched []Match
	for _, a := range c.nodeAddrs {
		m.Addr = a
		if _, claimed := c.byMatch[m]; claimed {
			touched = append(touched, m)
		}
	}
	return touched
}

// resolve decides who wins one match and adds the resulting changes to out. It returns
// the frontend that won before, or nil.
func (c *claims) resolve(m Match, out *Changes) (before *Frontend) {
	before, after := c.winners[m], c.winner(m)
	if c.winners[m] = after; after == nil {
		delete(c.winners, m)
	}
	was, is := before.here(), after.here()
	switch {
	case is && (!was || !before.equal(after)):
		out.Set = append(out.Set, *after)
	case was && !is:
		out.Removed = append(out.Removed, m)
	}
	switch {
	case was == is || !m.nodePort():
	case is:
		c.nodePorts[m.Family]++
	default:
		c.nodePorts[m.Family]--
	}
	_, losers := c.holder(m)
	c.loserTotal += losers - c.loserCounts[m]
	if losers > 0 {
		c.loserCounts[m] = losers
	} else {
		delete(c.loserCounts, m)
	}
	return before
}

func (c *claims) shrink() {
	c.byMatch = Shrink(c.byMatch, &c.peaks[0])
	c.winners = Shrink(c.winners, &c.peaks[1])
	c.loserCounts = Shrink(c.loserCounts, &c.peaks[2])
}

// conflict returns the conflict of a claim that loses its match, and whether it loses it.
func (c *claims) conflict(cl claim) (Conflict, bool) {
	m := cl.frontend.Match
	holder, _ := c.holder(m)
	if holder == nil || holder.frontend.Service == cl.frontend.Service {
		return Conflict{}, false
	}
	return Conflict{m, holder.frontend.Service, cl.frontend.Service}, true
}
