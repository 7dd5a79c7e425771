package looptest

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
	"kube-vmap/sync/source/convert"
	"kube-vmap/sync/source/convert/converttest"
)

// History gives a loop a history of valid and invalid API objects. The data decides what happens:
// the configuration, the objects, up to so many changes of them, and when they are sent. The faults
// are the shares of calls to the kernel that fail. If faults.Refused is not zero, the kernel also
// refuses some Services for a while, and other programs change our tables.
//
// History checks that every part of an object is used or reported, that the kernel holds the
// desired state, also when all objects are deleted, and that another loop then changes nothing.
// Without faults, nothing is refused.
func History(t *testing.T, k sync.Kernel, data []byte, events int, faults kerneltest.FaultRates) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := converttest.NewDraw(data)
		h := &history{newRig(k, faults, 1), t, d, faults.Refused > 0, map[string][]netip.Prefix{}}
		h.drawConfig()
		h.start()
		defer func() {
			_ = h.stop()
			if t.Failed() {
				t.Logf("the end of the log:\n%s", h.logTail(50))
			}
		}()
		for i := 0; i < events && !d.IsEmpty(); i++ {
			h.step()
		}
		h.faulty.ClearFaults()
		h.settleTwice()
		h.deleteAll()
		h.settleTwice()
		if log := h.log.String(); !h.hostile && strings.Contains(log, "level=ERROR") {
			t.Error("without faults, there was an error")
		}
	})
}

// history is a running history.
type history struct {
	*rig
	*testing.T
	draw    *converttest.Draw
	hostile bool // the kernel refuses some Services, and other programs change our tables
	cidrs   map[string][]netip.Prefix
}

// drawConfig draws a configuration.
func (h *history) drawConfig() {
	c := &h.config
	switch h.draw.N(4) {
	case 1:
		c.Rules.PodInterface, c.Rules.Pods = nft.Interface{Name: "veth", Prefix: true}, (nft.Config{}).Pods
	case 2:
		c.PodsFromNode, c.Rules.Pods = true, (nft.Config{}).Pods
	case 3:
		c.Rules.Pods = (nft.Config{}).Pods
	}
	bits := h.draw.N(256)
	c.MasqueradeAll, c.StrictSourceRanges, c.IgnoreExternalIPs = bits&1 > 0, bits&2 > 0, bits&4 > 0
	c.TCPFlowEndpoints, c.Rules.DropInvalid, c.NodePorts.Primary = bits&8 > 0, bits&16 > 0, bits&32 > 0
	c.Scheduler = converttest.One(h.draw,
		model.SchedulerDefault, model.SchedulerRoundRobin, model.SchedulerSourceHash, model.SchedulerMaglev)
	c.AnswerPings = bits&128 > 0
	if bits&64 > 0 { // changes of a namespace wait
		var used time.Duration
		c.CPUTime = func() time.Duration { used += restingTime; return used }
	}
}

// restingTime is the processor time of a sync that postpones changes of its namespace.
const restingTime = 300 * time.Millisecond

// step changes an object, and sometimes sends the changes, lets time pass, or restarts the loop.
func (h *history) step() {
	d := h.draw
	h.change()
	if h.hostile && d.Odd(6) {
		name, port := converttest.One(d, "web", "dns", "api"), converttest.One(d, "http", "dns", "sip")
		errno := converttest.One[syscall.Errno](d, 0, 0, unix.ERANGE, unix.ENFILE, unix.ENOMEM)
		h.faulty.Refuse(namespace+"/"+name+":"+port, errno, d.N(2))
	}
	if h.hostile && d.Odd(20) {
		how := strings.Fields(converttest.One(d, "delete tables", "delete IPv6", "flush nat-prerouting", "flush lb-1",
			"empty services", "empty endpoints-0", "empty hairpin"))
		_ = h.damage(how[0], how[1]) // if they exist
	}
	if !d.Odd(3) {
		h.sendBurst()
		if err := h.checkSnapshot(); err != nil && !h.hostile {
			h.Fatal(err)
		}
	}
	if d.Odd(4) {
		h.wait(time.Duration(d.N(256)) * 2 * time.Millisecond)
	}
	switch {
	case d.Odd(50):
		h.restart()
	case !h.hostile && d.Odd(8):
		h.settle()
	}
}

func (h *history) restart() {
	if err := h.stop(); err != nil {
		h.Fatal(err)
	}
	h.start()
	h.sendBurst()
}

// settle waits until everything is committed, also what failed or waits, and checks the kernel.
func (h *history) settle() {
	h.sendBurst()
	h.wait(2 * time.Minute)
	if err := errors.Join(h.check(), h.checkSnapshot()); err != nil {
		h.Fatal(err)
	}
}

// settleTwice also checks that another loop changes nothing.
func (h *history) settleTwice() {
	h.settle()
	h.meter.batches.Store(0)
	h.restart()
	h.settle()
	if n := h.meter.batches.Load(); n != 0 {
		h.Errorf("a loop that found everything in order applied %d batches", n)
	}
}

// change draws an object to add, change or delete. It mostly uses few names, addresses and
// ports, to make Services return, and claim the same addresses.
func (h *history) change() {
	d := h.draw
	switch d.N(12) {
	case 0, 1, 2, 3, 4:
		s := d.Service()
		value, errs := convert.Service(s)
		converttest.CheckServiceResult(h.T, s, value, errs)
		if value != nil {
			h.set(sync.SetService{Service: *value})
		} else if len(errs) == 0 { // otherwise its former version stays
			h.set(sync.DeleteService{Name: model.ServiceName{Namespace: s.Namespace, Name: s.Name}})
		}
	case 5, 6, 7, 8:
		s := d.Slice()
		value, errs := convert.Slice(s)
		converttest.CheckSliceResult(h.T, s, value, errs)
		if value != nil {
			h.set(sync.SetSlice{Slice: *value})
		} else if len(errs) == 0 {
			h.set(sync.DeleteSlice{Name: model.EndpointSliceName{Namespace: s.Namespace, Name: s.Name}})
		}
	case 9:
		if value, _ := convert.Node(d.Node()); value != nil {
			converttest.CheckNames(h.T, value.Name, value.Zone)
			h.set(sync.SetNode{Node: *value})
		}
	case 10:
		h.changeCIDRs()
	case 11:
		if removed := h.deletions(); len(removed) > 0 {
			h.set(removed[d.N(min(256, len(removed)))])
		}
	}
}

func (h *history) changeCIDRs() {
	c := h.draw.ServiceCIDR()
	ranges, errs := convert.ServiceCIDR(c)
	converttest.CheckPrefixes(h.T, ranges)
	if len(ranges)+len(errs) < max(1, len(c.Spec.CIDRs)) {
		h.Errorf("of %q: %v, %v", c.Spec.CIDRs, ranges, errs)
	}
	h.cidrs[c.Name] = ranges
	h.set(sync.SetServiceCIDRs{CIDRs: slices.Concat(slices.Collect(maps.Values(h.cidrs))...)})
}

func (h *history) deleteAll() {
	for _, e := range h.deletions() {
		h.set(e)
	}
}

// deletions returns the events that delete the current objects.
func (h *history) deletions() (out []sync.Event) {
	for _, e := range h.all() {
		switch e := e.(type) {
		case sync.SetService:
			out = append(out, sync.DeleteService{Name: e.Service.Name})
		case sync.SetSlice:
			out = append(out, sync.DeleteSlice{Name: e.Slice.Name})
		}
	}
	return out
}
