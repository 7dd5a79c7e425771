package wire

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/nfttest"
)

// randomCounted are n different counts, of all protocols.
func randomCounted(f model.Family, n int) []nft.ConnectionCount {
	r := rand.New(rand.NewPCG(uint64(f), 7))
	var out []nft.ConnectionCount
	for i := range n {
		c := nft.ConnectionCount{
			Destination: model.Match{
				Family: f, Addr: nfttest.Addr(f, 96, i), Protocol: model.Protocols[r.IntN(3)], Port: uint16(r.Uint32()),
			},
			Endpoint:    netip.AddrPortFrom(nfttest.Addr(f, 244, i), uint16(1+r.IntN(65535))),
			Connections: r.Uint64(),
		}
		if i%10 == 0 {
			c.Endpoint = netip.AddrPort{}
		}
		out = append(out, c)
	}
	return nft.SortConnections(out)
}

func TestConnectionsRoundTrip(t *testing.T) {
	for _, f := range model.Families {
		want := randomCounted(f, 5000)
		messages := split(t, encoded(t, nft.Batch{nft.AddConnections{Family: f, List: want}}).Bytes)
		if len(messages) < 5 {
			t.Errorf("%d elements are in %d messages", len(want), len(messages))
		}
		var got []nft.ConnectionCount
		for _, m := range messages[1 : len(messages)-1] {
			var err error
			if got, err = DecodeConnections(f, got, m.data()); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(nft.SortConnections(got), want) {
			t.Errorf("%s: %d are read back otherwise", nft.FamilyName(f), len(want))
		}
		for _, m := range split(t, encoded(t, nft.Batch{nft.DeleteConnections{Family: f, List: want}}).Bytes)[1:] {
			if list, err := DecodeConnections(f, nil, m.data()); err == nil && len(list) > 0 && list[0].Connections != 0 {
				t.Fatalf("%v carries a counter although it is to be deleted", list[0])
			}
		}
	}
}

// TestConnectionsOfOtherPrograms reads elements that another program added.
func TestConnectionsOfOtherPrograms(t *testing.T) {
	count := randomCounted(model.IPv4, 1)[0]
	count.Connections = 7
	key := func(e *encoder) {
		at := len(e.Bytes)
		e.connection(&count, false)
		e.Bytes = append(e.Bytes[:at], e.Bytes[at+attr.HeaderLen:]...) // without the header of an element
	}
	expression := func(name string) func(e *encoder) {
		return func(e *encoder) {
			e.Nested(unix.NFTA_SET_ELEM_EXPR, func() {
				e.String(unix.NFTA_EXPR_NAME, name)
				e.Nested(unix.NFTA_EXPR_DATA, func() { e.Uint64(unix.NFTA_COUNTER_PACKETS, 7) })
			})
		}
	}
	for name, tt := range map[string]struct {
		parts []func(*encoder)
		want  int // connections; negative if the element is ignored
	}{
		"counter":                {[]func(*encoder){key, expression("counter")}, 7},
		"no counter":             {[]func(*encoder){key}, 0},
		"another expression":     {[]func(*encoder){key, expression("quota")}, 0},
		"another, and a counter": {[]func(*encoder){key, expression("quota"), expression("counter")}, 7},
		"no key":                 {[]func(*encoder){expression("counter")}, -1},
		"two keys":               {[]func(*encoder){key, key}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			var e encoder
			e.NetfilterHeader(unix.NFPROTO_IPV4, 0)
			e.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
				e.Nested(unix.NFTA_LIST_ELEM, func() {
					for _, write := range tt.parts {
						write(&e)
					}
				})
			})
			got, err := DecodeConnections(model.IPv4, nil, e.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			var want []nft.ConnectionCount
			if tt.want >= 0 {
				want = []nft.ConnectionCount{count}
				want[0].Connections = uint64(tt.want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v is read, want %v", got, want)
			}
		})
	}
}

// FuzzCounted checks that everything that is read is written again unchanged.
func FuzzCounted(f *testing.F) {
	for _, family := range model.Families {
		m := split(f, encoded(f, nft.Batch{nft.AddConnections{Family: family, List: randomCounted(family, 5)}}).Bytes)[1]
		f.Add(family == model.IPv6, m.data())
	}
	f.Fuzz(func(t *testing.T, v6 bool, data []byte) {
		family := model.IPv4
		if v6 {
			family = model.IPv6
		}
		list, err := DecodeConnections(family, nil, data)
		if len(list) > len(data)/attr.HeaderLen {
			t.Fatalf("%d bytes became %d", len(data), len(list))
		}
		list = nft.SortConnections(list)
		if err != nil || len(list) == 0 {
			return
		}
		m := split(t, encoded(t, nft.Batch{nft.AddConnections{Family: family, List: list}}).Bytes)[1]
		again, err := DecodeConnections(family, nil, m.data())
		if again = nft.SortConnections(again); err != nil || !slices.Equal(again, list) {
			t.Errorf("%v is read again as %v: %v", list, again, err)
		}
	})
}

func TestClientsAreReadAsTheyAreForgotten(t *testing.T) {
	for _, id := range []nft.SetID{
		{Family: model.IPv4, Kind: nft.SetAffinity},
		{Family: model.IPv6, Kind: nft.SetAffinity},
		{Family: model.IPv4, Kind: nft.SetHeld},
		{Family: model.IPv6, Kind: nft.SetHeld},
	} {
		var want, got []nft.Client
		f := id.Family
		for _, c := range randomCounted(f, 5000) {
			want = append(want, nft.Client{Destination: c.Destination})
			if id.Kind == nft.SetAffinity {
				want[len(want)-1].Addr = nfttest.Addr(f, 10, len(want))
			}
		}
		messages := split(t, encoded(t, nft.Batch{nft.Forget(id, want)}).Bytes)
		for _, m := range messages[1 : len(messages)-1] {
			if err := DecodeClients(id, m.data(), func(c nft.Client) { got = append(got, c) }); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d clients are read otherwise", nft.FamilyName(f), len(want))
		}
	}
}
