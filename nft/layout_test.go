package nft

import (
	"fmt"
	"testing"

	"github.com/google/nftables"

	"kube-vmap/model"
)

// The types as another library knows them, which took them from nft's sources.
var knownTypes = map[field][len(model.Families)]nftables.SetDatatype{
	fieldSource:              {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	fieldDestination:         {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	fieldProtocol:            {nftables.TypeInetProto, nftables.TypeInetProto},
	fieldPort:                {nftables.TypeInetService, nftables.TypeInetService},
	fieldPick:                {nftables.TypeMark, nftables.TypeMark},
	fieldClient:              {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	fieldOriginalDestination: {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	fieldOriginalPort:        {nftables.TypeInetService, nftables.TypeInetService},
}

func TestSetsAreDeclaredWithTheTypesNftKnows(t *testing.T) {
	for kind := range setKinds {
		for _, f := range model.Families {
			id := SetID{Family: f, Kind: kind}
			t.Run(fmt.Sprint(families[f].name, " ", setSchema[kind].name), func(t *testing.T) {
				var fields []nftables.SetDatatype
				for _, part := range id.layout().key {
					fields = append(fields, knownTypes[part][f])
				}
				key := nftables.MustConcatSetType(fields...)
				if len(fields) == 1 {
					key = fields[0]
				}
				data := nftables.MustConcatSetType(knownTypes[fieldDestination][f], nftables.TypeInetService)
				shape := id.shape(384)
				if shape.KeyType != key.GetNFTMagic() || shape.KeyLen != key.Bytes {
					t.Errorf("keys are of type %d, length %d; want %d, %d", shape.KeyType, shape.KeyLen, key.GetNFTMagic(), key.Bytes)
				}
				switch id.layout().content {
				case contentNone:
					data = nftables.SetDatatype{}
				case contentVerdict:
					data = nftables.TypeVerdict
					data.SetNFTMagic(typeVerdict.number) // what the kernel calls it
					data.Bytes = 0
				case contentAddress:
					data = knownTypes[fieldDestination][f]
				case contentPort:
					data = nftables.TypeInetService
				case contentEndpoint:
				}
				if shape.DataType != data.GetNFTMagic() || shape.DataLen != data.Bytes {
					t.Errorf("data are of type %d, length %d; want %d, %d", shape.DataType, shape.DataLen, data.GetNFTMagic(), data.Bytes)
				}
			})
		}
	}
}

func TestASetOfAnotherShapeIsNotOurs(t *testing.T) {
	for kind := range setKinds {
		id := SetID{Family: model.IPv6, Kind: kind}
		ours := id.shape(384)
		if !ours.Fits(id) || !id.shape(ours.Size).Fits(id) {
			t.Errorf("%s: its own shape is not ours", setSchema[kind].name)
		}
		for name, change := range map[string]func(*SetShape){
			"key type":    func(s *SetShape) { s.KeyType++ },
			"key length":  func(s *SetShape) { s.KeyLen += 4 },
			"data type":   func(s *SetShape) { s.DataType++ },
			"data length": func(s *SetShape) { s.DataLen += 4 },
			"flags":       func(s *SetShape) { s.Flags ^= setTimeout },
		} {
			other := ours
			change(&other)
			if other.Fits(id) {
				t.Errorf("%s: one of another %s is ours", setSchema[kind].name, name)
			}
		}
	}
}
