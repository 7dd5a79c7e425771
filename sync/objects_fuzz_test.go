package sync

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync/convert"
	"kube-vmap/sync/convert/converttest"
)

// FuzzObjects adds, changes and deletes valid and invalid API objects, all the way into a
// fake kernel: conversion, selection of endpoints, claims, plan, batch. Every part of an
// object is used or reported, no batch is refused, and in the end the kernel holds the
// same as if it had been programmed from scratch.
func FuzzObjects(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(10) {
		r := rand.NewChaCha8([32]byte{byte(seed)})
		history := make([]byte, 100+150*seed)
		_, _ = r.Read(history) // which never fails
		f.Add(history)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := converttest.NewDraw(data)
		w := newAPIWorld(t, drawConfig(d))
		for range 24 {
			w.event(d)
			if !d.Odd(3) {
				someWait := d.Odd(4)
				w.sync(func(string) bool { return someWait })
			}
			if d.IsEmpty() {
				break
			}
		}
		w.sync(never)
		w.checkFromScratch()
		w.deleteAll()
		w.sync(never)
		w.checkFromScratch()
	})
}

// drawConfig draws a configuration.
func drawConfig(d *converttest.Draw) Config {
	c := Config{NodeName: "node-1", Rules: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}}
	switch d.N(4) {
	case 1:
		c.Rules.Pods = [...]netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56")}
	case 2:
		c.Rules.PodInterface = nft.Interface{Name: "veth", Prefix: true}
	case 3:
		c.PodsFromNode = true
	}
	bits := d.N(64)
	c.MasqueradeAll, c.StrictSourceRanges, c.IgnoreExternalIPs = bits&1 > 0, bits&2 > 0, bits&4 > 0
	c.TCPFlowEndpoints, c.Rules.DropInvalid, c.NodePorts.Primary = bits&8 > 0, bits&16 > 0, bits&32 > 0
	c.Scheduler = converttest.One(d, model.SchedulerDefault, model.SchedulerRoundRobin, model.SchedulerSourceHash, model.SchedulerMaglev)
	return c
}

// apiWorld is the objects of an API, and a desired state with its kernel.
type apiWorld struct {
	*testing.T
	config Config
	state  *desiredState
	kernel *kerneltest.Kernel
	rules  *nft.Ruleset // nil before the first batch

	// objects are the events of current objects, by key.
	objects map[string]Event
	cidrs   map[string][]netip.Prefix
}

func newAPIWorld(t *testing.T, c Config) *apiWorld {
	w := &apiWorld{
		T: t, config: c, state: newDesiredState(c), kernel: kerneltest.New(),
		objects: map[string]Event{}, cidrs: map[string][]netip.Prefix{},
	}
	w.state.setInterfaces(addrs("192.0.2.1", "192.0.2.2", "2001:db8:9::1", "fe80::1"))
	return w
}

// event draws an object to add, change or delete.
func (w *apiWorld) event(d *converttest.Draw) {
	switch d.N(12) {
	case 0, 1, 2, 3, 4:
		s := d.Service()
		value, errs := convert.Service(s)
		converttest.CheckServiceResult(w.T, s, value, errs)
		if value == nil {
			w.remove(DeleteService{model.ServiceName{Namespace: s.Namespace, Name: s.Name}}, len(errs) > 0)
			return
		}
		w.send(SetService{*value})
	case 5, 6, 7, 8:
		s := d.Slice()
		value, errs := convert.Slice(s)
		converttest.CheckSliceResult(w.T, s, value, errs)
		if value == nil {
			w.remove(DeleteSlice{model.EndpointSliceName{Namespace: s.Namespace, Name: s.Name}}, len(errs) > 0)
			return
		}
		w.send(SetSlice{Slice: *value})
	case 9:
		if value, _ := convert.Node(d.Node()); value != nil {
			converttest.CheckNames(w.T, value.Name, value.Zone)
			w.send(SetNode{Node: *value})
		}
	case 10:
		c := d.ServiceCIDR()
		ranges, errs := convert.ServiceCIDR(c)
		converttest.CheckPrefixes(w.T, ranges)
		if len(ranges)+len(errs) < max(1, len(c.Spec.CIDRs)) {
			w.Errorf("of %q: %v, %v", c.Spec.CIDRs, ranges, errs)
		}
		w.cidrs[c.Name] = ranges
		w.send(SetServiceCIDRs{slices.Concat(slices.Collect(maps.Values(w.cidrs))...)})
	case 11:
		w.deleteOne(d)
	}
}

// remove deletes an object, unless it was refused: then its former version stays.
func (w *apiWorld) remove(e Event, refused bool) {
	if !refused {
		w.send(e)
	}
}

// send applies an event to the desired state.
func (w *apiWorld) send(e Event) {
	w.state.apply([]Event{e})
	switch e := e.(type) {
	case SetService:
		w.objects[e.Service.Name.String()] = e
	case DeleteService:
		delete(w.objects, e.Name.String())
	case SetSlice:
		w.objects["slice "+e.Slice.Name.String()] = e
	case DeleteSlice:
		delete(w.objects, "slice "+e.Name.String())
	default:
		w.objects[fmt.Sprintf("%T", e)] = e
	}
}

// current returns the events of all current objects, sorted by key.
func (w *apiWorld) current() []Event {
	var out []Event
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		out = append(out, w.objects[key])
	}
	return out
}

// deleteOne deletes a Service or a slice, if there is any.
func (w *apiWorld) deleteOne(d *converttest.Draw) {
	var gone []Event
	for _, e := range w.current() {
		if g := deletion(e); g != nil {
			gone = append(gone, g)
		}
	}
	if len(gone) > 0 {
		w.send(gone[d.N(min(256, len(gone)))])
	}
}

func (w *apiWorld) deleteAll() {
	for _, e := range w.current() {
		if g := deletion(e); g != nil {
			w.send(g)
		}
	}
}

// deletion returns the event that deletes an object; nil if there is none.
func deletion(e Event) Event {
	switch e := e.(type) {
	case SetService:
		return DeleteService{e.Service.Name}
	case SetSlice:
		return DeleteSlice{e.Slice.Name}
	}
	return nil
}

// sync applies changes as a loop does.
func (w *apiWorld) sync(waits func(namespace string) bool) {
	change, _ := w.state.take(waits)
	var batch nft.Batch
	if w.rules == nil || w.state.rulesChanged {
		w.state.rulesChanged = false
		w.rules, batch = nft.Adopt(w.state.config.Rules, w.read(), w.state.all())
	} else {
		plan := w.rules.Plan(change)
		batch = plan.Batch
		defer w.rules.Commit(plan)
	}
	w.apply(w.kernel, batch)
}

func (w *apiWorld) read() nft.Tables {
	have, err := w.kernel.Read()
	if err != nil {
		w.Fatal(err)
	}
	return have
}

func (w *apiWorld) apply(k *kerneltest.Kernel, b nft.Batch) {
	w.Helper()
	if _, err := k.Apply(b); err != nil {
		w.Fatalf("refused: %v\n%s", err, b)
	}
}
