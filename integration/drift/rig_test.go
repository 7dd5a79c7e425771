package drift

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	gosync "sync"
	"testing"
	"time"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// patience is how long a step may take on a busy machine.
const patience = time.Minute

// rig is a loop on the real kernel, and another program that uses it.
type rig struct {
	t      *testing.T
	host   *lab.Host
	other  *kernel.Kernel
	log    process.Log
	bursts chan []sync.Event
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{t: t, host: labtest.Alone(t), bursts: make(chan []sync.Event)}
	r.other = r.open()
	return r
}

func (r *rig) open() *kernel.Kernel {
	r.t.Helper()
	return labtest.Kernel(r.t, r.host)
}

// Run implements sync.Source. It sends the bursts of the test.
func (r *rig) Run(ctx context.Context, out chan<- []sync.Event) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case burst := <-r.bursts:
			sync.Send(ctx, out, burst)
		}
	}
}

// start runs a loop until the function it returns is called, and waits until it is
// ready. afterRead is called once, after the kernel was read.
func (r *rig) start(services int, protect bool, afterRead func()) (stop func()) {
	r.t.Helper()
	k := &hookedKernel{Kernel: r.open(), afterRead: afterRead}
	shared, err := k.Share()
	if err != nil {
		r.t.Fatal(err)
	}
	c := sync.Config{NodeName: "node-1", DriftReader: shared}
	c.Rules = nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark, Protect: protect, CountConnections: true}
	loop := sync.NewLoop(c, r, k, slog.New(slog.NewTextHandler(&r.log, nil)))
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	r.bursts <- testServices(services)
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
		shared.Close()
		k.Close()
	})
}

// hookedKernel calls a function after its first read.
type hookedKernel struct {
	*kernel.Kernel
	afterRead func()
}

// Read implements sync.Kernel.
func (k *hookedKernel) Read() (nft.Tables, error) {
	have, err := k.Kernel.Read()
	if k.afterRead != nil {
		k.afterRead()
		k.afterRead = nil
	}
	return have, err
}

// testServices returns events of Services with three endpoints each, alternating between
// the families.
func testServices(n int) (events []sync.Event) {
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

// slice returns the EndpointSlice of a Service, in one of two versions.
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

// damage empties the chain through which every packet from outside comes.
func (r *rig) damage(f model.Family) {
	r.t.Helper()
	if _, err := r.other.Apply(nft.Batch{nft.FlushChain{Family: f, Name: damagedChain}}); err != nil {
		r.t.Error(err)
	}
}

const damagedChain = "nat-prerouting"

// awaitRepair waits until that chain has rules again in both families.
func (r *rig) awaitRepair() {
	r.t.Helper()
	eventually.Succeeds(r.t, "repair", func() error {
		have, _, err := r.other.ReadOnce()
		if err == nil && (len(have[model.IPv4].Chains[damagedChain].Rules) == 0 || len(have[model.IPv6].Chains[damagedChain].Rules) == 0) {
			err = fmt.Errorf("the log:\n%s", &r.log)
		}
		return err
	})
}
