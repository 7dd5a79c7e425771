package flows

import (
	"fmt"
	"maps"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/kernel/conntrack"
)

// TestWalksSeparateAnsweredEntries has entries of every protocol and family with and without a
// reply, of two endpoints, and others whose destination was not translated.
func TestWalksSeparateAnsweredEntries(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	var all []flow
	type kind struct {
		family   model.Family
		protocol model.Protocol
		replied  bool
	}
	of := map[kind][]flow{}
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			for i, replied := range []bool{false, true} {
				for j, by := range []string{"ep1", "ep2"} {
					port := uint16(4000 + 10*i + j)
					e := flow{protocol: p, client: at(f, "client", port), to: at(f, "vip", 80), by: at(f, by, 8080)}
					e.translated, e.replied = true, replied
					x.add(e, flow{protocol: p, client: at(f, "remote", port), to: e.by, by: e.by, replied: replied})
					all, of[kind{f, p, replied}] = append(all, e), append(of[kind{f, p, replied}], e)
				}
			}
		}
	}
	c := x.open()
	ids := x.expect("translated", c.EachTranslated, all)
	if again := x.expect("translated", c.EachTranslated, all); !maps.Equal(again, ids) {
		t.Errorf("numbers %v changed to %v", ids, again)
	}
	for k, want := range of {
		each := func(begin func(), fn func(conntrack.Entry)) error {
			if k.replied {
				return c.EachAnswered(k.family, k.protocol, begin, fn)
			}
			return c.EachUnanswered(k.family, k.protocol, begin, fn)
		}
		x.expect(fmt.Sprintf("%+v", k), each, want)
	}
}
