package nft

import (
	"fmt"
	"testing"

	"github.com/google/nftables"

	"kube-vmap/model"
)

// The types as another library knows them, which took them from nft's sources.
var knownTypes = map[Field][len(model.Families)]nftables.SetDatatype{
	FieldSource:              {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldDestination:         {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldProtocol:            {nftables.TypeInetProto, nftables.TypeInetProto},
	FieldPort:                {nftables.TypeInetService, nftables.TypeInetService},
	FieldPick:                {nftables.TypeMark, nftables.TypeMark},
	FieldClient:              {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldOriginalDestination: {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldOriginalPort:        {nftables.TypeInetService, nftables.TypeInetService},
	FieldOriginalSource:      {nftables.TypeIPAddr, nftables.TypeIP6Addr},
	FieldOriginalSourcePort:  {nftables.TypeInetService, nftables.TypeInetService},
	FieldNumber:              {nftables.TypeClassID, nftables.TypeClassID},
}

func TestSetShapes(t *testing.T) {
	for kind := range setKinds {
		for _, f := range model.Families {
			id := SetID{Family: f, Kind: kind}
			t.Run(fmt.Sprint(families[f].name, " ", setSchema[kind].name), func(t *testing.T) {
				var fields []nftables.SetDatatype
				for _, part := range id.Layout().Key {
					fields = append(fields, knownTypes[part][f])
				}
				key := nftables.MustConcatSetType(fields...)
				if len(fields) == 1 {
					key = fields[0]
				}
				data := nftables.MustConcatSetType(knownTypes[FieldDestination][f], nftables.TypeInetService)
				shape := id.Shape(384)
				if shape.KeyType != key.GetNFTMagic() || shape.KeyLen != key.Bytes {
					t.Errorf("keys are of type %d, length %d; want %d, %d", shape.KeyType, shape.KeyLen, key.GetNFTMagic(), key.Bytes)
				}
				switch id.Layout().Content {
				case ContentNone:
					data = nftables.SetDatatype{}
				case ContentVerdict:
					data = nftables.TypeVerdict
					data.SetNFTMagic(typeVerdict.number) // what the kernel calls it
					data.Bytes = 0
				case ContentAddress:
					data = knownTypes[FieldDestination][f]
				case ContentPort:
					data = nftables.TypeInetService
				case ContentNumber:
					data = nftables.TypeClassID
				case ContentEndpoint:
				}
				if shape.DataType != data.GetNFTMagic() || shape.DataLen != data.Bytes {
					t.Errorf("data are of type %d, length %d; want %d, %d", shape.DataType, shape.DataLen, data.GetNFTMagic(), data.Bytes)
				}
			})
		}
	}
}
