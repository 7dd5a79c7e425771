package wire

import (
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/nfttest"
)

func BenchmarkEncodeFirstLoad(b *testing.B) {
	for name, frontends := range map[string][]model.Frontend{
		"ClusterIP":         nfttest.TenEndpointsEach(10_000),
		"NodePort+LB+Local": nfttest.TenEndpointsFromOutside(10_000),
	} {
		b.Run(name, func(b *testing.B) {
			c := nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}
			_, batch := nft.Adopt(c, nft.Tables{}, nft.Change{Set: frontends})
			b.ReportAllocs()
			for b.Loop() {
				e, err := Encode(batch)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(e.Bytes)))
			}
		})
	}
}
