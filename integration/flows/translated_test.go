package flows

import (
	"maps"
	"net/netip"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// TestWalksTellAnsweredEntries has entries of every protocol and family with and without a
// reply, of two endpoints, and others whose destination was not translated.
func TestWalksTellAnsweredEntries(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	var all, unanswered []flow
	answered := map[netip.Addr][]flow{} // by endpoint, and all
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for i, replied := range []bool{false, true} {
				for j, by := range []string{"ep1", "ep2"} {
					port := uint16(4000 + 10*i + j)
					e := flow{protocol: p, client: at(f, "client", port), to: at(f, "vip", 80), by: at(f, by, 8080)}
					e.translated, e.replied = true, replied
					x.add(e, flow{protocol: p, client: at(f, "remote", port), to: e.by, by: e.by, replied: replied})
					if all = append(all, e); !replied {
						unanswered = append(unanswered, e)
						continue
					}
					for _, key := range []netip.Addr{e.by.Addr(), {}} {
						answered[key] = append(answered[key], e)
					}
				}
			}
		}
	}
	c := x.open()
	x.expect("unanswered", c.EachUnanswered, unanswered)
	ids := x.expect("translated", c.EachTranslated, all)
	if again := x.expect("translated", c.EachTranslated, all); !maps.Equal(again, ids) {
		t.Errorf("numbers %v changed to %v", ids, again)
	}
	for addr, want := range answered {
		each := func(begin func(), fn func(conntrack.Entry)) error { return c.EachAnswered(addr, begin, fn) }
		x.expect("answered by "+addr.String(), each, want)
	}
}
