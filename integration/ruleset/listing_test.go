package ruleset

import (
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// checkListings lists the rule set with every version of nft, and loads the listing.
func checkListings(t *testing.T, p *proxy) {
	t.Helper()
	for _, nft := range versions(t) {
		t.Run("nft "+nft.version, func(t *testing.T) {
			nft.mustBeHad(t)
			for _, f := range model.Families {
				checkListing(t, p, nft, f)
			}
		})
	}
}

// checkListing has a version list the table of one family, and load the listing,
// and what Render writes, all with the same outcome.
func checkListing(t *testing.T, p *proxy, nft program, f model.Family) {
	t.Helper()
	listing := nft.listTable(p.machine, f)
	check := func(how, have, want string) {
		if have, want = anyOrder(have), anyOrder(want); have != want {
			t.Errorf("%s:%s", how, firstDifference(have, want))
		}
	}
	check("listed by this version and the installed one", listing, installed(t).listTable(p.machine, f))
	if !nft.loads(p.world, f) {
		return
	}
	again := newMachine(t)
	nft.load(again, listing)
	check("the listing, loaded and listed again", nft.listTable(again, f), listing)
	byText := newMachine(t)
	nft.load(byText, rendered(t, p.rules, f))
	check("what Render wrote, loaded and listed", nft.listTable(byText, f), listing)
}

// What would make goldens of thousands of lines.
func TestNftListsAndLoadsLargeRuleSets(t *testing.T) {
	t.Parallel()
	for name, scene := range map[string]string{
		"Maglev": `
			clusterip 10.96.0.11:80/tcp+udp+sctp shop/web always mh -> 10.244.1.1:80 x3`,
		"more endpoints than slots, and clients remembered": `
			clusterip 10.96.0.11:80/tcp shop/web always affinity=90s -> 10.244.1.1:80 x256`,
		"more endpoints than slots, one after the other, of this node": `
			clusterip 10.96.0.11:80/udp shop/web always rr local=300 -> 10.244.1.1:80 x300
			nodeport 30080/udp shop/web policy=local`,
		"more endpoints than slots, by a hash, which gives way": `
			clusterip 10.96.0.11:80/sctp shop/web always sh -> 10.244.1.1:80 x300
			clusterip 10.96.0.12:80/sctp shop/other always mh -> 10.244.1.1:80 x300`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := start(newMachine(t), parseWorld(scene))
			checkListings(t, p)
		})
	}
}

// Elements of a map that packets fill say how long they last, and for how long
// yet: what one lists while they are there, one can load.
func TestNftListsAndLoadsAffinity(t *testing.T) {
	for _, f := range model.Families {
		for _, nft := range versions(t) {
			t.Run("nft "+nft.version+", "+f.String(), func(t *testing.T) {
				nft.mustBeHad(t)
				p, _ := start(newMachine(t), readGolden(t, "affinity").world("frontends"))
				for i, timeout := range []string{"1s", "1m30s", "1h30m", "3h", "1d"} {
					client := address(sourceRanges[f], i)
					installed(t).load(p.machine, "add element "+commands("T affinity { ", f)+client.String()+
						commands(" . C . sctp . 80 timeout ", f)+timeout+" : f0ab:7 }")
				}
				o := nft.run(p.machine, "", "list", "table", commands("FAM", f), "kube-vmap")
				if n := strings.Count(o.stdout, " expires "); o.err != nil || o.stderr != "" || n < 4 {
					t.Fatalf("%d clients are listed: %v\n%s%s", n, o.err, o.stderr, o.stdout)
				}
				if !nft.loads(p.world, f) {
					return
				}
				again := newMachine(t)
				nft.load(again, o.stdout)
				if n := strings.Count(nft.listTable(again, f), ". sctp . 80 timeout "); n < 4 {
					t.Errorf("%d clients are loaded", n)
				}
				p.check() // they are no concern of ours
				p.turn(p.world.without())
			})
		}
	}
}

func render(t testing.TB, r *nft.Ruleset) string {
	t.Helper()
	var text strings.Builder
	if err := r.Render(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func rendered(t testing.TB, r *nft.Ruleset, f model.Family) string {
	t.Helper()
	const second = "add table ip6 "
	first, rest, found := strings.Cut(render(t, r), second)
	if !found {
		t.Fatal("what Render wrote is not one family behind the other")
	}
	if f == model.IPv4 {
		return first
	}
	return second + rest
}
