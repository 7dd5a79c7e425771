package crash

import (
	"fmt"
	"net/netip"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// flaws returns the inconsistencies in tables, whatever their version.
func flaws(have nft.Tables) (found []string) {
	var sizes [2][2]int
	for _, f := range model.Families {
		if have[f] == nil {
			continue
		}
		c := &check{Table: have[f], family: f, used: map[pool]bool{}}
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

// check checks the table of a family.
type check struct {
	*nft.Table
	family model.Family
	pools  map[pool]map[uint32]bool // the used slots of each
	used   map[pool]bool            // that connections reach
	flaws  []string
}

// pool identifies a list of endpoints of a ClusterIP and port.
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

// index returns the elements of a set by key.
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
		if !c.used[p] {
			c.flaw("unused endpoints: %v", p)
		}
	}
	c.sources()
}

// targets checks that every chain exists that an element goes to, and that every number of
// an endpoint leads to one.
func (c *check) targets() {
	for name, set := range c.Sets {
		id, _ := nft.SetNamed(c.family, name)
		for i, e := range set.Elements {
			if _, leads := c.EndpointOf(id, &set.Elements[i]); !leads {
				c.flaw("%s has number %x, which no endpoint has", name, e.Value.Number)
			}
			if e.Value.Verdict != nft.VerdictGoto {
				continue
			}
			chain := e.Value.Chain.Name()
			if _, there := c.Chains[chain]; !there {
				c.flaw("%s goes to %s, which does not exist", name, chain)
			}
		}
	}
}

// fillPools records the slots in which each pool has endpoints.
func (c *check) fillPools() {
	c.pools = map[pool]map[uint32]bool{}
	for name, set := range c.Sets {
		id, known := nft.SetNamed(c.family, name)
		if !known {
			c.flaw("an unknown set: %s", name)
		}
		if id.Kind < nft.SetEndpoints || id.Kind >= nft.SetStickyEndpoints {
			continue
		}
		for _, e := range set.Elements {
			slot := max(e.Key.Pick, uint32(id.Slot))
			e.Key.Pick = 0
			p := pool{e.Key, id.Local}
			if c.pools[p] == nil {
				c.pools[p] = map[uint32]bool{}
			}
			if c.pools[p][slot] {
				c.flaw("%v has two endpoints in slot %d", p, slot)
			}
			c.pools[p][slot] = true
		}
	}
}

// dispatch checks the elements by which connections reach endpoints.
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
			c.flaw("%v has a ClusterIP that no chain uses", key)
		}
	}
}

// lead checks the chain that connections go to: its number of endpoints must be in the
// first slots of the pool, without a gap. Where clients are remembered, that number is the
// next power of two.
func (c *check) lead(kind nft.SetKind, key nft.Key, chain nft.ChainID) {
	if chain.Kind >= nft.ChainService {
		behind, there := c.behind(kind, key)
		if !there {
			c.flaw("%v goes to %s without a ClusterIP", key, chain.Name())
			return
		}
		key = behind
	}
	p := pool{key, chain.Local}
	c.used[p] = true
	slots := c.pools[p]
	n, tooMany := uint32(len(slots)), len(slots) > int(chain.N)
	if tooMany || n < chain.N && (chain.Seconds == 0 || 2*n <= chain.N) {
		c.flaw("%v goes to %s, and has %d endpoints", p, chain.Name(), n)
		return
	}
	for k := range n {
		if !slots[k] {
			c.flaw("%v goes to %s, and has no endpoint in slot %d", p, chain.Name(), k)
		}
	}
}

// behind returns the ClusterIP and port of a key.
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

// sources checks that source ranges are only of restricted addresses.
func (c *check) sources() {
	restricted := c.index(nft.SetRestricted)
	for name, set := range c.Sets {
		if id, _ := nft.SetNamed(c.family, name); id.Kind != nft.SetAllowedSources {
			continue
		}
		for _, e := range set.Elements {
			of := nft.Key{Addr: e.Key.Addr, Protocol: e.Key.Protocol, Port: e.Key.Port}
			if _, is := restricted[of]; !is {
				c.flaw("%v allows sources without being restricted", of)
			}
		}
	}
}

// TestFlaws tests the checks: each edit of a consistent table is found.
func TestFlaws(t *testing.T) {
	key := nft.Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: model.TCP, Port: 80}
	slot := func(k uint16) string {
		return nft.SetID{Family: model.IPv4, Kind: nft.SetEndpoints, Slot: k}.Name()
	}
	for name, edit := range map[string]func(*nft.Table){
		"a missing target":            func(t *nft.Table) { delete(t.Chains, "cluster-2") },
		"a missing endpoint":          func(t *nft.Table) { t.Sets[slot(1)] = nft.SetState{} },
		"a gap":                       func(t *nft.Table) { t.Sets[slot(2)], t.Sets[slot(0)] = t.Sets[slot(0)], nft.SetState{} },
		"an endpoint too many":        func(t *nft.Table) { t.Sets[slot(2)] = t.Sets[slot(0)] },
		"unused endpoints":            func(t *nft.Table) { t.Sets["services"] = nft.SetState{} },
		"an unused ClusterIP":         func(t *nft.Table) { t.Sets["service-ips"] = nft.SetState{Elements: []nft.Element{{Key: key}}} },
		"sources without restriction": func(t *nft.Table) { t.Sets["allowed-sources-24"] = nft.SetState{Elements: []nft.Element{{Key: key}}} },
		"an unknown set":              func(t *nft.Table) { t.Sets["intruder"] = nft.SetState{} },
	} {
		t.Run(name, func(t *testing.T) {
			table := nft.NewTable()
			table.Chains["cluster-2"] = nft.ChainState{}
			to := nft.ChainID{Family: model.IPv4, Kind: nft.ChainCluster, N: 2}
			table.Sets["services"] = nft.SetState{Elements: []nft.Element{{Key: key, Value: nft.Value{Verdict: nft.VerdictGoto, Chain: to}}}}
			for k := range uint16(2) {
				table.Sets[slot(k)] = nft.SetState{Elements: []nft.Element{{Key: key}}}
			}
			twin := &check{Table: table, family: model.IPv4, used: map[pool]bool{}}
			if twin.run(); len(twin.flaws) > 0 {
				t.Fatalf("before the edit: %q", twin.flaws)
			}
			edit(table)
			c := &check{Table: table, family: model.IPv4, used: map[pool]bool{}}
			if c.run(); len(c.flaws) == 0 {
				t.Error("no flaw was found")
			}
		})
	}
}
