package nft

import (
	"net/netip"
	"testing"

	"kube-vmap/model"
)

// tenEach is the change from nothing to n Services with ten endpoints each.
func tenEach(n int) Change {
	var c Change
	addr, pod := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.244.0.1")
	for range n {
		f := model.Frontend{
			Match:      model.Match{Family: model.IPv4, Addr: addr, Protocol: model.TCP, Port: 80},
			Service:    model.ServicePortName{ServiceName: model.ServiceName{Namespace: "default", Name: "web"}, Protocol: model.TCP},
			Masquerade: model.MasqueradeOffPod,
		}
		for range 10 {
			f.Endpoints = append(f.Endpoints, netip.AddrPortFrom(pod, 8080))
			pod = pod.Next()
		}
		c.Set = append(c.Set, f)
		addr = addr.Next()
	}
	return c
}

func BenchmarkAdoptNothing(b *testing.B) {
	want := tenEach(10_000)
	b.ReportAllocs()
	for b.Loop() {
		Adopt(Config{MasqueradeMark: DefaultMasqueradeMark}, Tables{}, want)
	}
}

func BenchmarkEncodeFirstLoad(b *testing.B) {
	_, batch := Adopt(Config{MasqueradeMark: DefaultMasqueradeMark}, Tables{}, tenEach(10_000))
	b.ReportAllocs()
	for b.Loop() {
		e, err := batch.Encode()
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(e.Bytes)))
	}
}

func BenchmarkPlanReplacedEndpoint(b *testing.B) {
	want := tenEach(10_000)
	rules, _ := Adopt(Config{MasqueradeMark: DefaultMasqueradeMark}, Tables{}, want)
	f := want.Set[5_000]
	other := append(f.Endpoints[:9:9], netip.MustParseAddrPort("10.245.0.1:8080"))
	f.Endpoints = other
	b.ReportAllocs()
	for b.Loop() {
		p := rules.Plan(Change{Set: []model.Frontend{f}})
		if len(p.Batch) != 2 {
			b.Fatalf("the batch has %d ops", len(p.Batch))
		}
	}
}
