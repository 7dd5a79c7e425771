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

// FuzzObjects makes API objects come, change and go, good ones and bad ones, and
// takes them the whole way into a kernel: conversion, selection, claims, plan,
// batch. Of each object is either used or told what there is; no batch is
// refused; and in the end the kernel holds what it would if it had been told the
// end at once.
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
				w.sync()
			}
			if d.IsEmpty() {
				break
			}
		}
		w.sync()
		w.checkServed()
		w.checkFromScratch()
		w.deleteAll()
		w.sync()
		w.checkFromScratch()
	})
}

// drawConfig draws what a loop is told once.
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

// apiWorld is what the API says, and a loop's state with its kernel.
type apiWorld struct {
	*testing.T
	config Config
	state  *desiredState
	kernel *kerneltest.Kernel
	rules  *nft.Ruleset // nil before the first batch

	// said is what events say that stands, by what it is said of.
	said  map[string]Event
	cidrs map[string][]netip.Prefix
}

func newAPIWorld(t *testing.T, c Config) *apiWorld {
	w := &apiWorld{
		T: t, config: c, state: newDesiredState(c), kernel: kerneltest.New(),
		said: map[string]Event{}, cidrs: map[string][]netip.Prefix{},
	}
	w.state.setInterfaces(addrs("192.0.2.1", "192.0.2.2", "2001:db8:9::1", "fe80::1"))
	return w
}

// event draws an object that comes or goes.
func (w *apiWorld) event(d *converttest.Draw) {
	switch d.N(12) {
	case 0, 1, 2, 3, 4:
		s := d.Service()
		value, errs := convert.Service(s)
		converttest.CheckServiceResult(w.T, s, value, errs)
		if value == nil {
			w.without(DeleteService{model.ServiceName{Namespace: s.Namespace, Name: s.Name}}, len(errs) > 0)
			return
		}
		w.say(SetService{*value})
	case 5, 6, 7, 8:
		s := d.Slice()
		value, errs := convert.Slice(s)
		converttest.CheckSliceResult(w.T, s, value, errs)
		if value == nil {
			w.without(DeleteSlice{model.EndpointSliceName{Namespace: s.Namespace, Name: s.Name}}, len(errs) > 0)
			return
		}
		w.say(SetSlice{Slice: *value})
	case 9:
		if value, _ := convert.Node(d.Node()); value != nil {
			converttest.CheckNames(w.T, value.Name, value.Zone)
			w.say(SetNode{Node: *value})
		}
	case 10:
		c := d.ServiceCIDR()
		ranges, errs := convert.ServiceCIDR(c)
		converttest.CheckPrefixes(w.T, ranges)
		if len(ranges)+len(errs) < max(1, len(c.Spec.CIDRs)) {
			w.Errorf("of %q: %v, %v", c.Spec.CIDRs, ranges, errs)
		}
		w.cidrs[c.Name] = ranges
		w.say(SetServiceCIDRs{slices.Concat(slices.Collect(maps.Values(w.cidrs))...)})
	case 11:
		w.deleteOne(d)
	}
}

// without says that there is no such object any more, unless it was refused: then
// what was known of it stays.
func (w *apiWorld) without(e Event, refused bool) {
	if !refused {
		w.say(e)
	}
}

// say notes an event and has the state take it.
func (w *apiWorld) say(e Event) {
	w.state.apply([]Event{e})
	switch e := e.(type) {
	case SetService:
		w.said[e.Service.Name.String()] = e
	case DeleteService:
		delete(w.said, e.Name.String())
	case SetSlice:
		w.said["slice "+e.Slice.Name.String()] = e
	case DeleteSlice:
		delete(w.said, "slice "+e.Name.String())
	default:
		w.said[fmt.Sprintf("%T", e)] = e
	}
}

// frontends are the events that lead to what stands, in an order of their own.
func (w *apiWorld) standing() []Event {
	var out []Event
	for _, key := range slices.Sorted(maps.Keys(w.said)) {
		out = append(out, w.said[key])
	}
	return out
}

// deleteOne deletes a Service or a slice, if there is any.
func (w *apiWorld) deleteOne(d *converttest.Draw) {
	var gone []Event
	for _, e := range w.standing() {
		if g := contrary(e); g != nil {
			gone = append(gone, g)
		}
	}
	if len(gone) > 0 {
		w.say(gone[d.N(min(256, len(gone)))])
	}
}

func (w *apiWorld) deleteAll() {
	for _, e := range w.standing() {
		if g := contrary(e); g != nil {
			w.say(g)
		}
	}
}

// contrary is the event that undoes another one; nil if nothing does.
func contrary(e Event) Event {
	switch e := e.(type) {
	case SetService:
		return DeleteService{e.Service.Name}
	case SetSlice:
		return DeleteSlice{e.Slice.Name}
	}
	return nil
}

// sync does as a loop does.
func (w *apiWorld) sync() {
	change, _ := w.state.take()
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
