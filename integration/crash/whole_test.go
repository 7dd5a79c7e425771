package crash

import (
	"fmt"
	"net/netip"
	"regexp"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// flaws lists what is not whole in tables, whatever they are meant to say.
func flaws(have nft.Tables) (found []string) {
	var sizes [2][2]int
	for _, f := range model.Families {
		if have[f] == nil {
			continue
		}
		c := &check{Table: have[f], family: f, led: map[pool]bool{}}
		c.run()
		for _, flaw := range c.flaws {
			found = append(found, nft.FamilyName(f)+": "+flaw)
		}
		sizes[f] = [2]int{len(c.set(nft.SetServices)), len(c.pools)}
	}
	// All Services here have both families, which change in one transaction.
	if sizes[0] != sizes[1] {
		found = append(found, fmt.Sprintf("addresses and pools are %d in family ip, %d in ip6", sizes[0], sizes[1]))
	}
	return found
}

// check looks through the table of a family.
type check struct {
	*nft.Table
	family model.Family
	pools  map[pool]map[uint32]bool // the places taken in each
	led    map[pool]bool            // to which connections are led
	flaws  []string
}

// pool is one of the lists of endpoints of a ClusterIP and port.
type pool struct {
	of    nft.Key
	local bool
}

func (c *check) flaw(format string, args ...any) {
	c.flaws = append(c.flaws, fmt.Sprintf(format, args...))
}

func (c *check) set(kind nft.SetKind) []nft.Element {
	return c.Sets[nft.SetID{Family: c.family, Kind: kind}.Name()].Elements
}

// index is the elements of a set by key.
func (c *check) index(kind nft.SetKind) map[nft.Key]nft.Value {
	out := map[nft.Key]nft.Value{}
	for _, e := range c.set(kind) {
		out[e.Key] = e.Value
	}
	return out
}

func (c *check) run() {
	c.targets()
	c.fillPools()
	c.dispatch(nft.SetServices, nft.SetLocalServices, nft.SetNoEndpointServices)
	c.dispatch(nft.SetNodePorts, nft.SetLocalNodePorts, nft.SetNoEndpointNodePorts)
	for p := range c.pools {
		if !c.led[p] {
			c.flaw("endpoints of nobody: %v", p)
		}
	}
	c.sources()
}

// endpointChain is what the chain of an endpoint that remembers clients is called.
var endpointChain = regexp.MustCompile(`^(local-)?sticky-\d+s-`)

// targets looks for every chain that an element leads to, and for chains of
// endpoints to which none does.
func (c *check) targets() {
	led := map[string]bool{}
	for name, set := range c.Sets {
		for _, e := range set.Elements {
			if e.Value.Verdict != nft.VerdictGoto {
				continue
			}
			chain := e.Value.Chain.Name()
			led[chain] = true
			if _, there := c.Chains[chain]; !there {
				c.flaw("%s leads to %s, which is not there", name, chain)
			}
		}
	}
	for name := range c.Chains {
		if endpointChain.MatchString(name) && !led[name] {
			c.flaw("nothing leads to %s", name)
		}
	}
}

// fillPools notes which places each pool has endpoints in.
func (c *check) fillPools() {
	c.pools = map[pool]map[uint32]bool{}
	for name, set := range c.Sets {
		id, known := nft.SetNamed(c.family, name)
		if !known {
			c.flaw("a set of somebody else: %s", name)
		}
		if id.Kind < nft.SetEndpoints || id.Kind > nft.SetStickyEndpointsMany {
			continue
		}
		for _, e := range set.Elements {
			place := max(e.Key.Pick, uint32(id.Slot))
			e.Key.Pick = 0
			p := pool{e.Key, id.Local}
			if c.pools[p] == nil {
				c.pools[p] = map[uint32]bool{}
			}
			if c.pools[p][place] {
				c.flaw("%v has two endpoints in place %d", p, place)
			}
			c.pools[p][place] = true
		}
	}
}

// dispatch follows the elements by which connections reach endpoints.
func (c *check) dispatch(all, local, none nft.SetKind) {
	general, outside, refused := c.index(all), c.index(local), c.index(none)
	for key, value := range general {
		c.lead(all, key, value.Chain)
		_, toLocal := outside[key]
		_, toNone := refused[key]
		if fromOutside := value.Chain.Kind == nft.ChainExternalLocal; fromOutside != (toLocal || toNone) || toLocal && toNone {
			c.flaw("%v goes to %s; for clients outside: local endpoints %t, none %t", key, value.Chain.Name(), toLocal, toNone)
		}
	}
	for key, value := range outside {
		if _, is := general[key]; !is {
			c.flaw("%v is served for clients outside only", key)
		}
		c.lead(all, key, value.Chain)
	}
	if all != nft.SetServices {
		return
	}
	for key := range c.index(nft.SetServiceIPs) {
		if k := general[key].Chain.Kind; k != nft.ChainExternal && k != nft.ChainExternalLocal {
			c.flaw("%v has a ClusterIP behind it, which nobody looks for", key)
		}
	}
}

// lead follows a connection to a chain: as many endpoints as the chain is for must
// be in as many places, without a gap.
func (c *check) lead(kind nft.SetKind, key nft.Key, chain nft.ChainID) {
	if chain.Kind >= nft.ChainService {
		behind, there := c.behind(kind, key)
		if !there {
			c.flaw("%v goes to %s without a ClusterIP behind it", key, chain.Name())
			return
		}
		key = behind
	}
	p := pool{key, chain.Local}
	c.led[p] = true
	places := c.pools[p]
	if len(places) != int(chain.N) {
		c.flaw("%v goes to %s, and has %d endpoints", p, chain.Name(), len(places))
		return
	}
	for k := range chain.N {
		if !places[k] {
			c.flaw("%v goes to %s, and has no endpoint in place %d", p, chain.Name(), k)
		}
	}
}

// behind is the ClusterIP and port behind a key.
func (c *check) behind(kind nft.SetKind, key nft.Key) (nft.Key, bool) {
	if kind == nft.SetServices {
		v, there := c.index(nft.SetServiceIPs)[key]
		key.Addr = v.Endpoint.Addr()
		return key, there
	}
	addr, there := c.index(nft.SetNodePortServiceIPs)[key]
	port, also := c.index(nft.SetNodePortServicePorts)[key]
	return nft.Key{Addr: addr.Endpoint.Addr(), Protocol: key.Protocol, Port: port.Endpoint.Port()}, there && also
}

// sources compares who may come with where that is asked.
func (c *check) sources() {
	restricted := c.index(nft.SetRestricted)
	for name, set := range c.Sets {
		if id, _ := nft.SetNamed(c.family, name); id.Kind != nft.SetAllowedSources {
			continue
		}
		for _, e := range set.Elements {
			of := nft.Key{Addr: e.Key.Addr, Protocol: e.Key.Protocol, Port: e.Key.Port}
			if _, is := restricted[of]; !is {
				c.flaw("%v lets in sources without being restricted", of)
			}
		}
	}
}

// TestFlawsAreFound shows that the checks can say no: each edit of a whole table
// leaves something that they name.
func TestFlawsAreFound(t *testing.T) {
	key := nft.Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: model.TCP, Port: 80}
	slot := func(k uint16) string {
		return nft.SetID{Family: model.IPv4, Kind: nft.SetEndpoints, Slot: k}.Name()
	}
	for name, edit := range map[string]func(*nft.Table){
		"a target that is gone":  func(t *nft.Table) { delete(t.Chains, "cluster-2") },
		"an endpoint missing":    func(t *nft.Table) { t.Sets[slot(1)] = nft.SetState{} },
		"a gap":                  func(t *nft.Table) { t.Sets[slot(2)], t.Sets[slot(0)] = t.Sets[slot(0)], nft.SetState{} },
		"an endpoint too much":   func(t *nft.Table) { t.Sets[slot(2)] = t.Sets[slot(0)] },
		"endpoints of nobody":    func(t *nft.Table) { t.Sets["services"] = nft.SetState{} },
		"a ClusterIP for nobody": func(t *nft.Table) { t.Sets["service-ips"] = nft.SetState{Elements: []nft.Element{{Key: key}}} },
		"sources for nobody":     func(t *nft.Table) { t.Sets["allowed-sources-24"] = nft.SetState{Elements: []nft.Element{{Key: key}}} },
		"a set of somebody else": func(t *nft.Table) { t.Sets["intruder"] = nft.SetState{} },
	} {
		t.Run(name, func(t *testing.T) {
			table := nft.NewTable()
			table.Chains["cluster-2"] = nft.ChainState{}
			to := nft.ChainID{Family: model.IPv4, Kind: nft.ChainCluster, N: 2}
			table.Sets["services"] = nft.SetState{Elements: []nft.Element{{Key: key, Value: nft.Value{Verdict: nft.VerdictGoto, Chain: to}}}}
			for k := range uint16(2) {
				table.Sets[slot(k)] = nft.SetState{Elements: []nft.Element{{Key: key}}}
			}
			twin := &check{Table: table, family: model.IPv4, led: map[pool]bool{}}
			if twin.run(); len(twin.flaws) > 0 {
				t.Fatalf("before the edit: %q", twin.flaws)
			}
			edit(table)
			c := &check{Table: table, family: model.IPv4, led: map[pool]bool{}}
			if c.run(); len(c.flaws) == 0 {
				t.Error("nothing was found")
			}
		})
	}
}
