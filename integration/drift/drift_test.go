package drift

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
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

// many is a number of Services with which a read takes longer than the time between two
// changes.
const many = 6000

// TestDriftIsRepairedDuringOwnChanges tests that our own changes, one after the other, do
// not hide those of other programs.
func TestDriftIsRepairedDuringOwnChanges(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			r := newRig(t)
			defer r.start(many, false, nil)()
			defer r.keepChanging()()
			r.damage(f)
			r.awaitRepair()
		})
	}
}

// keepChanging changes Services until the function it returns is called.
func (r *rig) keepChanging() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for version := 1; ctx.Err() == nil; version++ {
			select {
			case r.bursts <- []sync.Event{slice(version%100, version)}:
			case <-ctx.Done():
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-done }
}

// TestChangesBeforeTakingOwnershipAreRepaired tests changes between our read of tables
// without an owner and our taking ownership of them, which nothing detects later.
func TestChangesBeforeTakingOwnershipAreRepaired(t *testing.T) {
	for name, protect := range map[string]bool{"protected": true, "unprotected": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if able, err := r.other.SupportsOwner(); err != nil {
				t.Fatal(err)
			} else if protect && !able {
				t.Skip("this kernel does not let tables belong to a socket (Linux 6.9)")
			}
			r.start(10, protect, nil)()
			defer r.start(10, protect, func() {
				for _, f := range model.Families {
					r.damage(f)
				}
			})()
			r.awaitRepair()
		})
	}
}

// TestConstantForeignChangesDoNotPreventStart tests a program that changes its own tables
// up to fifty times a second: the loop starts, does not read forever, and logs nothing.
func TestConstantForeignChangesDoNotPreventStart(t *testing.T) {
	r := newRig(t)
	r.start(many, false, nil)()
	ctx, cancel := context.WithCancel(t.Context())
	neighbour := r.host.Command(ctx, "sh", "-c",
		"nft add table inet elsewhere; while sleep 0.02; do nft 'add chain inet elsewhere c; delete chain inet elsewhere c'; done")
	if err := neighbour.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = neighbour.Wait() }()
	defer r.start(many, false, nil)()
	// Changes go on, too.
	for version := range 20 {
		r.bursts <- []sync.Event{slice(0, version)}
		<-time.After(100 * time.Millisecond)
	}
	id := nft.SetID{Family: model.IPv4, Kind: nft.SetEndpoints}
	want := address(model.IPv4, 100, 1)
	eventually.Succeeds(t, "the last of 20 changes is installed", func() error {
		elements, err := r.other.Elements(id)
		if err == nil && !slices.ContainsFunc(elements, func(e nft.Element) bool {
			return e.Key.Addr == address(model.IPv4, 96, 0) && e.Value.Endpoint.Addr() == want
		}) {
			err = fmt.Errorf("none of %d elements has %s", len(elements), want)
		}
		return err
	})
	if log := r.log.String(); strings.Contains(log, "repaired") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log:\n%s", log)
	}
}

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
