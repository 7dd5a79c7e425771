package nft

import (
	"slices"
	"testing"

	"kube-vmap/model"
)

func TestTablesThatCannotBeChangedAreReplaced(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*Table)
		protect bool
		want    bool
	}{
		"unchanged":               {func(*Table) {}, false, false},
		"unchanged and protected": {func(*Table) {}, true, false},
		"dormant":                 {func(t *Table) { t.Dormant = true }, false, true},
		"alien":                   {func(t *Table) { t.Alien = true }, false, true},
		"protected":               {func(t *Table) { t.Protected = true }, false, true},
		"no longer protected":     {func(t *Table) { t.Protected = false }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			config := sampleConfig
			config.Protect = tt.protect
			rules, _ := Adopt(config, Tables{}, sample(12))
			have := rules.Tables()
			tt.change(have[model.IPv6])
			_, batch := Adopt(config, have, sample(12))
			if got := slices.Contains(batch, Op(DeleteTable{model.IPv6})); got != tt.want {
				t.Errorf("the table is deleted: %t, want %t", got, tt.want)
			}
		})
	}
}
