package nft

import (
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/nfttest"
)

// A field that is forgotten in one of the places that must know it panics there.
func TestEveryFieldHasLengthTypeTextAndExpression(t *testing.T) {
	for _, f := range model.Families {
		fam := &families[f]
		for field := range fields {
			if n := field.Len(f); n == 0 || n%4 != 0 {
				t.Errorf("field %d has %d bytes", field, n)
			}
			if field.datatype(fam).name == "" || field.text(fam) == "" || field.load(fam, regKey, pick{count: 2}) == nil {
				t.Errorf("field %d has no type, text or expression", field)
			}
			if field == FieldOriginalDestination || field == FieldOriginalPort {
				continue // connection counts have a text of their own
			}
			var s strings.Builder
			if (&Key{Source: endpointIPKey(nfttest.Addr(f, 1, 1)).Source}).writeField(&s, field, false); s.Len() == 0 {
				t.Errorf("field %d of a key has no text", field)
			}
		}
	}
}
