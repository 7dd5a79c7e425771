package ruleset

import (
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// checkListings has every version of nft judge what stands on the machine.
func checkListings(t *testing.T, p *proxy) {
	t.Helper()
	for _, nft := range []program{installed(t), newer} {
		t.Run("nft "+nft.version, func(t *testing.T) {
			nft.mustBeHad(t)
			listing := nft.list(p.machine)
			if other := installed(t).list(p.machine); other != listing {
				t.Errorf("it is listed otherwise than by nft %s:%s", installed(t).version, firstDifference(listing, other))
			}
			again := newMachine(t)
			nft.load(again, listing)
			if reloaded := nft.list(again); reloaded != listing {
				t.Errorf("the listing, loaded and listed again:%s", firstDifference(reloaded, listing))
			}
			byText := newMachine(t)
			nft.load(byText, render(t, p.rules))
			if rendered := nft.list(byText); rendered != listing {
				t.Errorf("what Render wrote, loaded and listed:%s", firstDifference(rendered, listing))
			}
		})
	}
	t.Run("nft "+older.version+" does not crash", func(t *testing.T) {
		older.mustBeHad(t)
		for _, f := range model.Families {
			o := older.run(p.machine, "", "-s", "list", "table", nft.FamilyName(f), nft.TableName)
			if o.crashed() {
				t.Errorf("listing table %s: %v\n%s", nft.FamilyName(f), o.err, o.stderr)
			}
			if o.err != nil || o.stderr != "" {
				t.Logf("listing table %s: %v\n%s", nft.FamilyName(f), o.err, o.stderr)
			}
		}
	})
}

func render(t testing.TB, r *nft.Ruleset) string {
	t.Helper()
	var text strings.Builder
	if err := r.Render(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
