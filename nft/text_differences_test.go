package nft

import (
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestDifferencesAreLinesOfElementsAndObjects(t *testing.T) {
	key := Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: model.TCP, Port: 80}
	to := Value{Endpoint: netip.MustParseAddrPort("10.244.0.1:8080")}
	address, all := Key{Addr: key.Addr, Bits: 32}, Key{Addr: netip.MustParseAddr("10.96.0.0"), Bits: 16}
	batch := Batch{
		AddElements{SetID{Kind: SetServices}, []Element{{Key: key, Value: goesTo(ChainID{Kind: ChainBalance, N: 1}), Service: &webPort}}},
		AddElements{SetID{Kind: SetEndpoints}, []Element{{Key: key, Value: to, Service: &webPort}}},
		DeleteElements{SetID{Kind: SetEndpoints, Slot: 1}, []Element{{Key: key, Value: to}}},
		DeleteElements{SetID{Kind: SetServiceCIDRs}, []Element{{Key: address}, {Key: all}}},
		FlushChain{model.IPv4, "another"},
		DeleteChain{model.IPv6, "another"},
	}
	want := `- ip kube-vmap chain another: its rules
+ ip kube-vmap map endpoints-0: 10.96.0.1 . tcp . 80 : 10.244.0.1 . 8080 # shop/web:http
- ip kube-vmap map endpoints-1: 10.96.0.1 . tcp . 80 : 10.244.0.1 . 8080
+ ip kube-vmap map services: 10.96.0.1 . tcp . 80 comment "shop/web:http" : goto lb-1
- ip kube-vmap set service-cidrs: 10.96.0.1
- ip kube-vmap set service-cidrs: 10.96.0.0/16
- ip6 kube-vmap chain another
`
	var s strings.Builder
	if err := batch.Differences(&s); err != nil {
		t.Fatal(err)
	}
	if s.String() != want {
		t.Errorf("they read\n%s\nwant\n%s", s.String(), want)
	}
}
