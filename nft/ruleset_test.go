package nft

import (
	"testing"

	"kube-vmap/model"
)

func TestAdoptKeepsSizesThatAreEnough(t *testing.T) {
	id := SetID{Family: model.IPv4, Kind: SetServices}
	rules, _ := load(12)
	elements := uint32(len(rules.Elements()[id]))
	for size, want := range map[uint32]uint32{4096: 4096, elements: elements, elements - 1: 384, 0: 384} {
		have := rules.Tables()
		set := have[id.Family].Sets[id.Name()]
		set.Shape.Size = size
		have[id.Family].Sets[id.Name()] = set
		adopted, _ := Adopt(sampleConfig, have, sample(12))
		if got := adopted.Tables()[id.Family].Sets[id.Name()].Shape.Size; got != want {
			t.Errorf("a set of size %d with %d elements gets size %d, want %d", size, elements, got, want)
		}
	}
}
