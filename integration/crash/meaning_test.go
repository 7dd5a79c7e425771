package crash

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"unique"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// meaningOf is all that tables say, a line each, but for the sizes of sets and
// for who is in which slot: those have a history.
func meaningOf(have nft.Tables) string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, f := range model.Families {
		if have[f] == nil {
			continue
		}
		family := nft.FamilyName(f)
		say("table %s, dormant %t, counter %t", family, have[f].Dormant, have[f].Counter)
		for name, c := range have[f].Chains {
			say("%s chain %s %+v", family, name, c)
		}
		for name, s := range have[f].Sets {
			s.Shape.Size = 0
			say("%s set %s %+v", family, name, s.Shape)
			id, _ := nft.SetNamed(f, name)
			if id.Kind == nft.SetEndpoints || id.Kind == nft.SetStickyEndpoints {
				name = nft.SetID{Family: f, Kind: id.Kind, Local: id.Local}.Name()
			}
			for _, e := range s.Elements {
				say("%s %s %s", family, name, elementText(e))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// elementText is an element without what is drawn for it.
func elementText(e nft.Element) string {
	text := fmt.Sprintf("%s/%d %s %d", e.Key.Addr, e.Key.Bits, e.Key.Protocol, e.Key.Port)
	if e.Key.Source != (unique.Handle[netip.Prefix]{}) {
		text += " " + e.Key.Source.Value().String()
	}
	switch e.Value.Verdict {
	case nft.VerdictGoto:
		return text + " : goto " + e.Value.Chain.Name() + " " + e.ServiceName()
	case nft.VerdictDrop:
		return text + " : drop " + e.ServiceName()
	}
	// Some have an address only, or a port.
	return text + fmt.Sprintf(" : %s %d %s", e.Value.Endpoint.Addr(), e.Value.Endpoint.Port(), e.ServiceName())
}

// shown is how many lines of a difference are told.
const shown = 40

// difference is which lines two texts do not both have, whatever their order;
// empty if there are none.
func difference(want, have string) string {
	lines := map[string]int{}
	for line := range strings.Lines(want) {
		lines[line]--
	}
	for line := range strings.Lines(have) {
		lines[line]++
	}
	maps.DeleteFunc(lines, func(_ string, n int) bool { return n == 0 })
	var out strings.Builder
	for i, line := range slices.Sorted(maps.Keys(lines)) {
		if i == shown {
			fmt.Fprintf(&out, "and %d lines more\n", len(lines)-shown)
			break
		}
		fmt.Fprintf(&out, "%+d %s", lines[line], line)
	}
	return out.String()
}
