package lab_test

import (
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func BenchmarkNew(b *testing.B) {
	labtest.Require(b)
	for b.Loop() {
		l, err := lab.New(lab.Options{Pods: 5})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBurst(b *testing.B) {
	l := labtest.New(b, lab.Options{Pods: 1})
	serveAll(b, l.Pods[0].Host)
	for _, p := range model.Protocols {
		b.Run(p.String(), func(b *testing.B) {
			t, err := l.Outside.Burst(lab.Burst{
				Protocol: p, To: l.Pods[0].AddrPort(model.IPv4, port),
				Count: b.N, Workers: 2, Timeout: patience,
			})
			if err != nil || t.Answered["pod-1"] != b.N {
				b.Fatal(t, err)
			}
		})
	}
}
