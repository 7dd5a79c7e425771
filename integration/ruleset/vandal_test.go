package ruleset

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// vandals are things another program may do to our table of one family: nft
// commands, in which T is the table, FAM the family, A and B are two of its
// addresses outside our plan, C is a ClusterIP, and ADDR the type of addresses.
var vandals = map[string]string{
	"flushes a chain that dispatches":   "flush chain T nat-prerouting",
	"flushes a chain of an endpoint":    "flush chain T ep-0",
	"flushes a chain that picks one":    "flush chain T lb-3",
	"puts a rule before ours":           "insert rule T nat-prerouting accept",
	"puts a rule behind ours":           "add rule T cluster-3 drop",
	"adds a chain that is used by ours": "add chain T foreign; insert rule T service-check jump foreign",
	"adds a base chain":                 "add chain T foreign { type filter hook input priority 5; policy drop; }",
	"adds a chain named like ours":      "add chain T lb-77; add chain T ep-99; add chain T lb-1000; add chain T ep-x",
	"adds a set and a rule with it":     "add set T foreign { type ADDR; }; add rule T nat-output FAM daddr @foreign accept",
	"adds a set named like ours":        "add set T endpoints-77 { type ADDR; elements = { A }; }; add map T affinity { type ADDR : verdict; }",
	"leads a map of its own to ours":    "add map T foreign { type ADDR : verdict; elements = { A : goto cluster-3, B : goto lb-3 }; }",
	"leads our map to its own chain":    "add chain T foreign; add element T services { A . tcp . 9 : goto foreign }",
	"adds a Service":                    "add element T services { A . tcp . 9 : goto lb-3 }",
	"adds an endpoint":                  "add element T endpoints-1 { A . tcp . 9 : B . 9 }",
	"adds a verdict we never write":     "add element T services { A . tcp . 9 : accept }",
	"adds an element for all else":      "add element T cluster-ips { * }",
	"adds a verdict for all else":       "add element T no-endpoint-services { * : drop }",
	"adds a range that is no prefix":    "add element T service-cidrs { A-B }",
	"renames a Service": "delete element T services { C . sctp . 3868 };" +
		"add element T services { C . sctp . 3868 comment \"other\" : goto cluster-1 }",
	"takes a Service's name": "delete element T services { C . sctp . 3868 };" +
		"add element T services { C . sctp . 3868 : goto cluster-1 }",
	"empties a set":             "flush set T cluster-ips",
	"empties a map of data":     "flush map T endpoints-1",
	"empties a map of verdicts": "flush map T services",
	"moves a base chain": "delete chain T filter-input;" +
		"add chain T filter-input { type filter hook input priority 10; }",
	"hooks a base chain elsewhere": "delete chain T nat-output;" +
		"add chain T nat-output { type nat hook prerouting priority 10; }",
	"makes a base chain of another type": "delete chain T nat-output;" +
		"add chain T nat-output { type filter hook output priority -100; }",
	"makes a base chain drop": "add chain T filter-forward { policy drop; }",
	"unhooks a base chain":    "delete chain T filter-input; add chain T filter-input",
	"deletes a base chain":    "delete chain T nat-postrouting",
	"deletes a set":           "flush chain T service-check; delete set T cluster-ips",
	"gives a set a timeout": "flush chain T nat-postrouting; delete set T hairpin;" +
		"add set T hairpin { type ADDR . ADDR; flags timeout; timeout 1h; }",
	"gives a set other keys": "flush chain T nat-postrouting; delete set T hairpin;" +
		"add set T hairpin { type ADDR; elements = { A }; }",
	"gives a set a smaller size": "flush chain T service-check; delete set T cluster-ips;" +
		"add set T cluster-ips { type ADDR; size 2; elements = { A, B }; }",
	"adds a pair of pods": "add element T hairpin { A . B }",
	"makes a set of verdicts one of data": "flush chain T ep-1; delete map T endpoints-1;" +
		"add map T endpoints-1 { type ADDR . inet_proto . inet_service : verdict; }",
	"switches the table off":           "add table T { flags dormant; }",
	"switches it off and moves a hook": "add table T { flags dormant; }; delete chain T filter-input",
	"deletes the table":                "delete table T",
	"replaces the table":               "delete table T; add table T; add chain T nat-prerouting",
}

// commands is what a vandal does to the table of a family.
func commands(vandal string, f model.Family) string {
	words := map[string][2]string{
		"T":    {"ip kube-vmap", "ip6 kube-vmap"},
		"A":    {"198.51.100.1", "2001:db8:99::1"},
		"B":    {"198.51.100.7", "2001:db8:99::7"},
		"C":    {"10.96.0.11", "fd00:10:96::b"},
		"ADDR": {"ipv4_addr", "ipv6_addr"},
		"FAM":  {"ip", "ip6"},
	}
	return regexp.MustCompile(`\b[A-Z]+\b`).ReplaceAllStringFunc(vandal, func(word string) string { return words[word][f] })
}

func TestVandalismIsUndone(t *testing.T) {
	for name := range vandals {
		for _, f := range model.Families {
			t.Run(fmt.Sprintf("a program %s in family %s", name, nft.FamilyName(f)), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				foreign := addForeign(m)
				w := readGolden(t, "testdata/walk.txtar").world(t, "frontends")
				p, _ := start(m, w)
				before := installed(t).list(m)
				installed(t).load(m, commands(vandals[name], f))
				if len(compare(m.read(), p.rules.Tables())) == 0 {
					t.Fatal("nothing was done")
				}
				start(m, p.world)
				if after := installed(t).list(m); after != before {
					t.Errorf("not all was undone:%s", firstDifference(after, before))
				}
				foreign.check()
			})
		}
	}
}

func TestVandalismAmidHistoryIsUndone(t *testing.T) {
	withSeeds(t, 1, func(t *testing.T, c *chance) {
		m := newMachine(t)
		p, _ := start(m, newWorld())
		for range steps / 2 {
			p.turn(c.step(p.world))
			for range 1 + c.IntN(3) {
				c.vandalize(p)
			}
			p, _ = start(m, p.world)
			p.checkNothingToDo(c)
			p.checkLikeFresh()
		}
	})
}

// vandalize does something random to our tables. Some of it fails, for what it
// is about may not be there.
func (c *chance) vandalize(p *proxy) {
	p.t.Helper()
	f := one(c, model.Families[:]...)
	var text string
	switch c.IntN(3) {
	case 0:
		names := slices.Sorted(maps.Keys(vandals))
		text = commands(vandals[one(c, names...)], f)
	case 1:
		text = c.lose(p, f)
	case 2:
		text = c.swap(p, f)
	}
	o := installed(p.t).run(p.machine, text, "-f", "-")
	if o.crashed() {
		p.t.Fatalf("nft crashed: %v\n%s\nof:\n%s", o.err, o.stderr, text)
	}
}

// lose deletes elements of every set.
func (c *chance) lose(p *proxy, f model.Family) string {
	var b nft.Batch
	for id, elements := range p.rules.Elements() {
		elements = slices.DeleteFunc(elements, func(nft.Element) bool { return !c.in(3) })
		if id.Family == f && len(elements) > 0 {
			b = append(b, nft.DeleteElements{Set: id, Elements: elements})
		}
	}
	return b.String()
}

// swap gives elements of every map of data another value.
func (c *chance) swap(p *proxy, f model.Family) string {
	var b nft.Batch
	for id, elements := range p.rules.Elements() {
		elements = slices.DeleteFunc(elements, func(nft.Element) bool { return !c.in(3) })
		if id.Family != f || len(elements) == 0 || id.Kind != nft.Endpoints {
			continue
		}
		b = append(b, nft.DeleteElements{Set: id, Elements: elements})
		for i := range elements {
			v := &elements[i].Value
			v.Endpoint = netip.AddrPortFrom(address(podRanges[f], c.IntN(30)), 8080)
		}
		b = append(b, nft.AddElements{Set: id, Elements: elements})
	}
	return b.String()
}
