package nft

import (
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft/nfttest"
)

func TestSortConnectionsKeepsTheGreaterCount(t *testing.T) {
	for _, f := range model.Families {
		var list, want []ConnectionCount
		for i := range 20 {
			c := ConnectionCount{
				Destination: model.Match{Family: f, Addr: nfttest.Addr(f, 96, i/2), Protocol: model.TCP, Port: 80},
				Endpoint:    netip.AddrPortFrom(nfttest.Addr(f, 244, i), 8080), Connections: uint64(1000 - i),
			}
			before := c
			before.Connections /= 2
			want, list = append(want, c), append(list, c, before)
		}
		slices.Reverse(list)
		if got := SortConnections(list); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestConnectionsAsText(t *testing.T) {
	asked := model.Match{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: model.UDP, Port: 53}
	six := model.Match{Family: model.IPv6, Addr: netip.MustParseAddr("fd00::a"), Protocol: model.SCTP, Port: 80}
	batch := Batch{
		DeleteConnections{model.IPv4, []ConnectionCount{{asked, netip.MustParseAddrPort("10.244.0.1:5353"), 3}, {Destination: asked}}},
		AddConnections{model.IPv4, []ConnectionCount{{Destination: asked, Connections: 7}}},
		AddConnections{model.IPv6, []ConnectionCount{{Destination: six, Connections: 1}}},
	}
	const want = `delete element ip kube-vmap connections { 10.96.0.10 . udp . 53 . 10.244.0.1 . 5353, 10.96.0.10 . udp . 53 . 0.0.0.0 . 0 }
add element ip kube-vmap connections { 10.96.0.10 . udp . 53 . 0.0.0.0 . 0 counter packets 7 bytes 0 }
add element ip6 kube-vmap connections { fd00::a . sctp . 80 . :: . 0 counter packets 1 bytes 0 }
`
	if got := batch.String(); got != want {
		t.Errorf("is\n%s\nwant\n%s", got, want)
	}
	if c := batch.Counts(); c != (Counts{Added: 2, Deleted: 2}) {
		t.Errorf("counts as %+v", c)
	}
}
