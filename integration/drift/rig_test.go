package drift

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	gosync "sync"
	"testing"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// patience is how long anything may take on a busy machine.
const patience = 20 * time.Second

// rig is a loop on the real kernel, and another program there.
type rig struct {
	t      *testing.T
	host   *lab.Host
	vandal *kernel.Kernel
	log    process.Log
	bursts chan []sync.Event
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, host: labtest.Alone(t), bursts: make(chan []sync.Event)}
	r.vandal = r.open()
	return r
}

func (r *rig) open() *kernel.Kernel {
	r.t.Helper()
	k, err := kernel.Open(kernel.Config{NetNS: r.host.FD()})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { k.Close() })
	return k
}

// Run is a sync.Source in the hands of the test.
func (r *rig) Run(ctx context.Context, out chan<- []sync.Event) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case burst := <-r.bursts:
			select {
			case out <- burst:
			case <-ctx.Done():
			}
		}
	}
}

// start runs a loop until the function it returns is called, and waits until it is
// ready. meddle is called after the kernel was first read.
func (r *rig) start(services int, protect bool, meddle func()) (stop func()) {
	r.t.Helper()
	k := &meddled{Kernel: r.open(), after: meddle}
	beside, err := k.Share()
	if err != nil {
		r.t.Fatal(err)
	}
	c := sync.Config{NodeName: "node-1", DriftReader: beside}
	c.Rules = nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Protect: protect, CountConnections: true}
	loop := sync.NewLoop(c, r, k, slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelInfo})))
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	r.bursts <- world(services)
	select {
	case <-loop.Ready():
	case <-time.After(patience):
		r.t.Fatalf("not ready after %s; the log:\n%s", patience, &r.log)
	}
	return gosync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
		beside.Close()
		k.Close()
	})
}

// meddled is a kernel to which something happens after it was read.
type meddled struct {
	*kernel.Kernel
	after func()
}

// Read reads, then lets it happen, once.
func (m *meddled) Read() (nft.Tables, error) {
	have, err := m.Kernel.Read()
	if m.after != nil {
		m.after()
		m.after = nil
	}
	return have, err
}

// world is Services with three endpoints each, of both families by turns.
func world(n int) (events []sync.Event) {
	for i := range n {
		f := model.Families[i%2]
		s := model.Service{
			Name: name(i), ClusterIPs: []netip.Addr{address(f, 96, i)},
			Ports: []model.ServicePort{{Protocol: model.Protocols[i%len(model.Protocols)], Port: 80}},
		}
		events = append(events, sync.SetService{Service: s}, slice(i, 0))
	}
	return events
}

func name(i int) model.ServiceName {
	return model.ServiceName{Namespace: "default", Name: fmt.Sprint("web-", i)}
}

// slice is the slice of a Service, in one of many versions.
func slice(i, version int) sync.Event {
	f := model.Families[i%2]
	s := model.EndpointSlice{
		Name: model.EndpointSliceName{Namespace: "default", Name: fmt.Sprint("web-", i)}, Service: name(i), Family: f,
		Ports: []model.EndpointPort{{Protocol: model.Protocols[i%len(model.Protocols)], Port: 8080}},
	}
	for k := range 3 {
		s.Endpoints = append(s.Endpoints, model.Endpoint{Addr: address(f, 100+k, i+version%2), Ready: true, Serving: true})
	}
	return sync.SetSlice{Slice: s}
}

func address(f model.Family, net, n int) netip.Addr {
	if f == model.IPv4 {
		return netip.AddrFrom4([4]byte{10, byte(net), byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0xfd, 0, byte(net), 14: byte(n >> 8), 15: byte(n)})
}

// deface empties the chain that every packet from outside comes through.
func (r *rig) deface(f model.Family) {
	r.t.Helper()
	if _, err := r.vandal.Apply(nft.Batch{nft.FlushChain{Family: f, Name: defaced}}); err != nil {
		r.t.Error(err)
	}
}

const defaced = "nat-prerouting"

// mended waits until that chain has rules again in both families, and says how long
// that took.
func (r *rig) mended() time.Duration {
	r.t.Helper()
	start := time.Now()
	for time.Since(start) < patience {
		have, _, err := r.vandal.ReadOnce()
		if err == nil && len(have[model.IPv4].Chains[defaced].Rules) > 0 && len(have[model.IPv6].Chains[defaced].Rules) > 0 {
			return time.Since(start)
		}
	}
	r.t.Fatalf("not mended after %s; the log:\n%s", patience, &r.log)
	return 0
}
