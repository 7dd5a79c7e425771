package looptest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// describeTables returns a line for each address and port, with the chain and the
// endpoints in the order of their slots, then one for each ServiceCIDR.
func describeTables(t nft.Tables) string {
	var frontends, cidrs strings.Builder
	for _, f := range model.Families {
		if t[f] == nil {
			continue
		}
		describeFrontends(&frontends, f, t[f], false)
		id := nft.SetID{Family: f, Kind: nft.SetServiceCIDRs}
		for _, e := range t[f].Sets[id.Name()].Elements {
			fmt.Fprintf(&cidrs, "%s %s/%d\n", id.Name(), e.Key.Addr, e.Key.Bits)
		}
	}
	return frontends.String() + cidrs.String()
}

// describeFrontends writes a line for each address and port. Endpoints are in the order of
// their slots, or sorted.
func describeFrontends(out *strings.Builder, f model.Family, t *nft.Table, sorted bool) {
	all, local := endpointsIn(f, t, false, sorted), endpointsIn(f, t, true, sorted)
	for _, kind := range [...]nft.SetKind{nft.SetServices, nft.SetNoEndpointServices} {
		for _, e := range t.Sets[nft.SetID{Family: f, Kind: kind}.Name()].Elements {
			m := model.Match{Family: f, Addr: e.Key.Addr, Protocol: e.Key.Protocol, Port: e.Key.Port}
			fmt.Fprintf(out, "%s %s", m, targetOf(e.Value))
			for _, a := range all[e.Key] {
				fmt.Fprintf(out, " %s", a)
			}
			for i, a := range local[e.Key] {
				if i == 0 {
					out.WriteString(" local")
				}
				fmt.Fprintf(out, " %s", a)
			}
			out.WriteString("\n")
			delete(all, e.Key)
			delete(local, e.Key)
		}
	}
	if len(all)+len(local) > 0 {
		fmt.Fprintf(out, "endpoints without a frontend: %v %v\n", all, local)
	}
}

// targetOf returns the target of an element of a verdict map.
func targetOf(v nft.Value) string {
	if v.Verdict == nft.VerdictGoto {
		return v.Chain.Name()
	}
	return "drop"
}

// endpointsIn returns the endpoints in slots, by the key of their pool.
func endpointsIn(f model.Family, t *nft.Table, local, sorted bool) map[nft.Key][]netip.AddrPort {
	out := map[nft.Key][]netip.AddrPort{}
	take := func(id nft.SetID) {
		list := slices.Clone(t.Sets[id.Name()].Elements)
		slices.SortStableFunc(list, func(a, b nft.Element) int { return int(a.Key.Pick) - int(b.Key.Pick) })
		for _, e := range list {
			endpoint, _ := t.EndpointOf(id, &e)
			e.Key.Pick = 0
			out[e.Key] = append(out[e.Key], endpoint)
		}
	}
	for slot := range uint16(nft.MaxSlots) {
		take(nft.SetID{Family: f, Kind: nft.SetEndpoints, Local: local, Slot: slot})
	}
	take(nft.SetID{Family: f, Kind: nft.SetEndpointsMany, Local: local})
	take(nft.SetID{Family: f, Kind: nft.SetStickyNumbers, Local: local})
	for _, list := range out {
		if sorted {
			slices.SortFunc(list, netip.AddrPort.Compare)
		}
	}
	return out
}

// Summary returns everything in tables as text, except details that depend on history
// without affecting packets: the sizes of sets, and the order of slots.
func Summary(t nft.Tables) string {
	var out strings.Builder
	for _, f := range model.Families {
		if t[f] == nil {
			continue
		}
		fmt.Fprintf(&out, "table %s, dormant %t, counters %t\n", nft.FamilyName(f), t[f].Dormant, t[f].Counters)
		describeFrontends(&out, f, t[f], true)
		for _, name := range slices.Sorted(maps.Keys(t[f].Sets)) {
			s := t[f].Sets[name]
			s.Shape.Size = 0
			fmt.Fprintf(&out, "set %s %+v\n", name, s.Shape)
			id, _ := nft.SetNamed(f, name)
			if id.Kind >= nft.SetEndpoints && id.Kind <= nft.SetStickyEndpoints {
				continue // described by frontend
			}
			for _, e := range s.Elements {
				fmt.Fprintf(&out, "\t%s\n", nft.AddElements{Set: id, Elements: []nft.Element{e}})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(t[f].Chains)) {
			fmt.Fprintf(&out, "chain %s %+v\n", name, t[f].Chains[name])
		}
	}
	return out.String()
}
