package nft

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// randomCounted are n different things that may be counted, of all protocols.
func randomCounted(f model.Family, n int) []ConnectionCount {
	r := rand.New(rand.NewPCG(uint64(f), 7))
	var out []ConnectionCount
	for i := range n {
		c := ConnectionCount{
			Asked: model.Match{
				Family: f, Addr: sampleAddr(f, 96, i), Protocol: model.Protocols[r.IntN(3)], Port: uint16(r.Uint32()),
			},
			Endpoint:    netip.AddrPortFrom(sampleAddr(f, 244, i), uint16(1+r.IntN(65535))),
			Connections: r.Uint64(),
		}
		if i%10 == 0 {
			c.Endpoint = netip.AddrPort{}
		}
		out = append(out, c)
	}
	return SortConnections(out)
}

func TestCountedConnectionsAreReadAsTheyWereWritten(t *testing.T) {
	for _, f := range model.Families {
		want := randomCounted(f, 5000)
		messages := split(t, encoded(t, Batch{AddConnections{f, want}}).Bytes)
		if len(messages) < 5 {
			t.Errorf("%d elements are in %d messages", len(want), len(messages))
		}
		var got []ConnectionCount
		for _, m := range messages[1 : len(messages)-1] {
			var err error
			if got, err = DecodeConnections(f, got, m.data()); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(SortConnections(got), want) {
			t.Errorf("%s: %d are read back otherwise", families[f].name, len(want))
		}
		for _, m := range split(t, encoded(t, Batch{DeleteConnections{f, want}}).Bytes)[1:] {
			if list, err := DecodeConnections(f, nil, m.data()); err == nil && len(list) > 0 && list[0].Connections != 0 {
				t.Fatalf("%v carries a counter although it is to be deleted", list[0])
			}
		}
	}
}

func TestOfAnElementThatIsListedTwiceTheLaterOneCounts(t *testing.T) {
	for _, f := range model.Families {
		want := randomCounted(f, 20)
		list := slices.Clone(want)
		for i := range want {
			before := want[i]
			before.Connections /= 2
			list = append(list, before)
		}
		if got := SortConnections(list); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestBatchesOfCountedConnectionsAreNftCommands(t *testing.T) {
	asked := model.Match{Addr: netip.MustParseAddr("10.96.0.10"), Protocol: model.UDP, Port: 53}
	six := model.Match{Family: model.IPv6, Addr: netip.MustParseAddr("fd00::a"), Protocol: model.SCTP, Port: 80}
	batch := Batch{
		DeleteConnections{model.IPv4, []ConnectionCount{{asked, netip.MustParseAddrPort("10.244.0.1:5353"), 3}, {Asked: asked}}},
		AddConnections{model.IPv4, []ConnectionCount{{Asked: asked, Connections: 7}}},
		AddConnections{model.IPv6, []ConnectionCount{{Asked: six, Connections: 1}}},
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
	err := (&Error{Op: batch[0], Errno: unix.ENOENT}).Error()
	if !strings.HasPrefix(err, "delete elements ip kube-vmap connections: ") {
		t.Errorf("its refusal is told as %q", err)
	}
}

// FuzzCounted has everything that is read be written again as it was.
func FuzzCounted(f *testing.F) {
	for _, family := range model.Families {
		m := split(f, encoded(f, Batch{AddConnections{family, randomCounted(family, 5)}}).Bytes)[1]
		f.Add(family == model.IPv6, m.data())
	}
	f.Fuzz(func(t *testing.T, v6 bool, data []byte) {
		family := model.IPv4
		if v6 {
			family = model.IPv6
		}
		list, err := DecodeConnections(family, nil, data)
		if len(list) > len(data)/attrLen {
			t.Fatalf("%d bytes became %d", len(data), len(list))
		}
		list = SortConnections(list)
		if err != nil || len(list) == 0 {
			return
		}
		m := split(t, encoded(t, Batch{AddConnections{family, list}}).Bytes)[1]
		again, err := DecodeConnections(family, nil, m.data())
		if again = SortConnections(again); err != nil || !slices.Equal(again, list) {
			t.Errorf("%v is read again as %v: %v", list, again, err)
		}
	})
}
