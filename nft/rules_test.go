package nft

import (
	"testing"

	"kube-vmap/model"
)

// TestNoElementLeadsToAnotherVerdictMap keeps loads and changes linear before the kernel's
// fix 8e1a1bc4f5a4: a map in a chain that elements jump to is checked once for each of
// them.
func TestNoElementLeadsToAnotherVerdictMap(t *testing.T) {
	for _, f := range model.Families {
		for _, id := range realChains(f) {
			if id.Kind < baseChains {
				continue // elements of services do not jump there
			}
			for _, rule := range sampleConfig.rules(id, someLengths) {
				for _, s := range rule {
					for _, set := range s.sets {
						if set.Layout().Content == ContentVerdict {
							t.Errorf("%s: %s", id.Name(), rule)
						}
					}
				}
			}
		}
	}
}
