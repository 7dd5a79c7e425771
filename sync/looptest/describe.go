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

// describe says in lines what the tables do with whom: for each address and port
// the chain and the endpoints by slot, then what other sets hold.
func describe(t nft.Tables) string {
	var out strings.Builder
	for _, f := range model.Families {
		if t[f] != nil {
			describeFrontends(&out, f, t[f], false)
		}
	}
	for _, f := range model.Families {
		if t[f] == nil {
			continue
		}
		id := nft.SetID{Family: f, Kind: nft.ServiceCIDRs}
		for _, e := range t[f].Sets[id.Name()].Elements {
			fmt.Fprintf(&out, "%s %s/%d\n", id.Name(), e.Key.Addr, e.Key.Bits)
		}
	}
	return out.String()
}

// describeFrontends writes a line for each address and port. If slots do not
// matter, endpoints are sorted.
func describeFrontends(out *strings.Builder, f model.Family, t *nft.Table, sorted bool) {
	endpoints := map[nft.Key][]netip.AddrPort{}
	for slot := range uint16(nft.MaxSlots) {
		for _, e := range t.Sets[nft.SetID{Family: f, Kind: nft.Endpoints, Slot: slot}.Name()].Elements {
			endpoints[e.Key] = append(endpoints[e.Key], e.Value.Endpoint)
		}
	}
	many := slices.Clone(t.Sets[nft.SetID{Family: f, Kind: nft.EndpointsMany}.Name()].Elements)
	slices.SortStableFunc(many, func(a, b nft.Element) int { return int(a.Key.Pick) - int(b.Key.Pick) })
	for _, e := range many {
		e.Key.Pick = 0
		endpoints[e.Key] = append(endpoints[e.Key], e.Value.Endpoint)
	}
	for _, kind := range [...]nft.SetKind{nft.Services, nft.NoEndpointServices} {
		for _, e := range t.Sets[nft.SetID{Family: f, Kind: kind}.Name()].Elements {
			m := model.Match{Family: f, Addr: e.Key.Addr, Protocol: e.Key.Protocol, Port: e.Key.Port}
			target := "drop"
			if e.Value.Verdict == nft.Goto {
				target = e.Value.Chain.Name()
			}
			fmt.Fprintf(out, "%s %s", m, target)
			list := endpoints[e.Key]
			if delete(endpoints, e.Key); sorted {
				slices.SortFunc(list, netip.AddrPort.Compare)
			}
			for _, a := range list {
				fmt.Fprintf(out, " %s", a)
			}
			out.WriteString("\n")
		}
	}
	if len(endpoints) > 0 {
		fmt.Fprintf(out, "endpoints of nobody: %v\n", endpoints)
	}
}

// Meaning is all that tables say, but for the sizes of sets and the order of
// slots.
func Meaning(t nft.Tables) string {
	var out strings.Builder
	for _, f := range model.Families {
		if t[f] == nil {
			continue
		}
		fmt.Fprintf(&out, "table %s\n", nft.FamilyName(f))
		describeFrontends(&out, f, t[f], true)
		for _, name := range slices.Sorted(maps.Keys(t[f].Sets)) {
			s := t[f].Sets[name]
			s.Shape.Size = 0
			fmt.Fprintf(&out, "set %s %+v\n", name, s.Shape)
			id, _ := nft.SetNamed(f, name)
			if id.Kind == nft.Endpoints || id.Kind == nft.EndpointsMany {
				continue // described by frontend
			}
			for _, e := range s.Elements {
				fmt.Fprintf(&out, "\t%+v\n", e)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(t[f].Chains)) {
			fmt.Fprintf(&out, "chain %s %+v\n", name, t[f].Chains[name])
		}
	}
	return out.String()
}
