package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/daemon/built"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == answer {
		if err := serve(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	clustertest.Main(m, built.Informers)
}

// BenchmarkKubeVMap measures starts of kube-vmap, and how it follows changes of a large cluster.
// With -short, the cluster is small.
func BenchmarkKubeVMap(b *testing.B) {
	if testing.Short() {
		newWorld(b, size{1_000, 10}).measure(b, 3, 50)
		return
	}
	newWorld(b, size{10_000, 10}).measure(b, 9, 200)
	newWorld(b, size{20_000, 5}).measure(b, 9, 0)
}

// measure measures starts, and changes of each kind.
func (w *world) measure(b *testing.B, rounds, changes int) {
	b.Helper()
	floor, first, again := w.informers(), w.kubeVMap("start"), w.kubeVMap("restart")
	for round := range rounds + 1 {
		if round == 1 { // the one before was to warm up
			floor.cost, first.cost, again.cost = cost{}, cost{}, cost{}
		}
		w.round(b, round, floor, first, again)
	}
	first.line(b, floor, marks{time: 1.4, cpu: 1.5, memory: 1})
	again.line(b, floor, marks{memory: 1.2}) // it also reads what is in the kernel
	if changes > 0 {
		proxy := first.start(b)
		w.follow(b, proxy, "endpoint-replaced", w.replaceEndpoint, changes, 5).
			line(b, 1.5, 5*time.Millisecond)
		w.follow(b, proxy, "Service-added", w.addService, changes, 5).line(b, 0, 0)
	}
}

// round starts each program once. The API server is slower in some starts than in others, which
// depends on what came before. So informers are the first, the second or the third, in turns.
func (w *world) round(b *testing.B, turn int, floor, first, again *program) {
	b.Helper()
	w.cleanup(b)
	for i, p := range []*program{first, again, nil} {
		if turn%3 == i {
			floor.once(b)
		}
		if p != nil {
			p.once(b)
		}
	}
}

// BenchmarkKubeProxy measures kube-proxy in mode nftables, which may need seconds for a change.
func BenchmarkKubeProxy(b *testing.B) {
	w := newWorld(b, size{10_000, 10})
	floor, p := w.informers(), w.kubeProxy(b)
	floor.once(b)
	proxy := p.start(b)
	p.line(b, floor, marks{})
	w.follow(b, proxy, "endpoint-replaced", w.replaceEndpoint, 10, 0.1).line(b, 0, 0)
	w.follow(b, proxy, "Service-added", w.addService, 10, 0.1).line(b, 0, 0)
}

// BenchmarkDisasters measures starts in clusters like those whose kube-proxy needed 16 min 43 s
// (kubernetes 139513) and 13 min 15 s (135639). To add the Services takes an hour.
func BenchmarkDisasters(b *testing.B) {
	for _, of := range []size{{5_006, 50}, {44_125, 1}} {
		w := newWorld(b, of)
		floor := w.informers()
		floor.once(b)
		for _, p := range []*program{w.kubeVMap("kube-vmap"), w.kubeProxy(b)} {
			p.start(b).Kill() // SIGTERM ends kube-proxy with an error
			p.line(b, floor, marks{})
			w.cleanup(b)
		}
	}
}

// marks are for the ratios to informers alone.
type marks struct{ time, cpu, memory float64 }

// line prints the figures of a program's starts.
func (p *program) line(b *testing.B, floor *program, most marks) {
	b.Helper()
	if testing.Short() { // what programs take without any Services is most of it
		most = marks{}
	}
	report.Line(b, fmt.Sprintf("%dx%d/%s", p.filling.Services, p.filling.Endpoints, p.name),
		report.Time("ms", p.took.Median(), 0), report.Ratios("x-informers", p.took, floor.took, most.time),
		report.Time("ms-CPU", p.cpu.Median(), 0), report.Ratios("x-informers-CPU", p.cpu, floor.cpu, most.cpu),
		report.Number("MB-peak", float64(p.peak.Median())/1e6, 0),
		report.Ratios("x-informers-peak", p.peak, floor.peak, most.memory))
}
