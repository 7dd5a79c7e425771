package looptest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// Random says what a random history is like.
type Random struct {
	Seed   uint64
	Events int
	// Shares of the calls to the kernel fail. If it refuses any, it also refuses
	// some Services for a while, and other programs change our tables.
	Shares kerneltest.FaultRates
	// Settle, if not nil, is called when nothing may go wrong any more, and the
	// loop is started again then: the kernel's content may not be its fault.
	Settle func()
}

// History gives a loop a random history and checks that in the end the kernel
// holds what it should, and that a loop which begins then changes nothing.
func History(t *testing.T, k sync.Kernel, o Random) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		moody := o.Shares.Refused > 0
		h := &history{newRig(k, o.Shares, o.Seed), &chance{rand.New(rand.NewPCG(o.Seed, 1))}, moody, !moody && o.Settle == nil}
		h.start()
		defer func() {
			_ = h.stop()
			if t.Failed() {
				t.Logf("the end of the log:\n%s", h.log.end(50))
			}
		}()
		for range o.Events {
			h.step(t)
		}
		h.faulty.ClearFaults()
		if o.Settle != nil {
			o.Settle()
			h.restart(t)
		}
		h.settle(t)
		h.meter.take(&h.meter.batches)
		h.restart(t)
		h.settle(t)
		if n := h.meter.take(&h.meter.batches); n != 0 {
			t.Errorf("a loop that found everything as it should be applied %d batches", n)
		}
	})
}

// history is a loop and its fate.
type history struct {
	*rig
	*chance
	moody bool // refuses some Services for a while, and is not alone
	alone bool // what the kernel holds is the loop's doing
}

// step makes one event and perhaps sends it, lets time pass, or starts the loop
// again.
func (h *history) step(t *testing.T) {
	t.Helper()
	h.world.change(h.chance)
	if h.moody && h.in(6) {
		h.faulty.Refuse(h.port(), [...]syscall.Errno{0, 0, unix.ERANGE, unix.ENFILE}[h.IntN(4)], h.IntN(2))
	}
	if h.moody && h.in(20) {
		h.vandalise()
	}
	if !h.in(3) {
		if err := h.burst(); err != nil {
			t.Fatal(err)
		}
		if err := h.checkView(); err != nil && h.alone {
			t.Fatal(err)
		}
	}
	if h.in(4) {
		h.wait(time.Duration(h.IntN(500)) * time.Millisecond)
	}
	if h.in(50) {
		h.restart(t)
	}
}

// vandalise does what another program might; there may be nothing to do it to.
func (h *history) vandalise() {
	what := [][]string{
		{"delete", "tables"},
		{"flush", "nat-prerouting"},
		{"flush", "lb-1"},
		{"empty", "services"},
		{"empty", "endpoints-0"},
		{"empty", "hairpin"},
	}
	_ = (&script{rig: h.rig}).vandal(what[h.IntN(len(what))])
}

func (h *history) restart(t *testing.T) {
	t.Helper()
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	h.start()
	if err := h.burst(); err != nil {
		t.Fatal(err)
	}
}

// settle waits until everything that failed was tried again, and checks the
// kernel.
func (h *history) settle(t *testing.T) {
	t.Helper()
	if err := h.burst(); err != nil {
		t.Fatal(err)
	}
	h.wait(2 * time.Minute)
	if err := errors.Join(h.check(), h.checkView()); err != nil {
		t.Fatal(err)
	}
}

// chance draws events.
type chance struct{ *rand.Rand }

// in is true once in n times.
func (c *chance) in(n int) bool { return c.IntN(n) == 0 }

// crowd is how many Services come and go together, now and then, so that maps
// outgrow the size they were made with.
const crowd = 450

// change makes a random change. Names, addresses and ports are few, so that
// Services come back, and claim the same.
func (w *world) change(c *chance) {
	switch c.IntN(24) {
	case 0:
		w.run("node", [...]string{"", "zone-a", "zone-b"}[c.IntN(3)])
	case 1, 2:
		w.run("cidrs", c.some("10.96.0.0/16", "10.97.0.0/16", "10.96.0.0/12", "fd00:10:96::/112")...)
	case 3, 4, 5:
		w.run("delete", "service", c.service())
	case 6, 7:
		w.run("delete", "slice", c.slice())
	case 8, 9, 10, 11, 12, 13:
		addresses := c.some("10.96.0.1", "10.96.0.2", "10.96.0.3", "fd00:10:96::1", "fd00:10:96::2")
		ports := c.some("80/tcp", "dns=53/udp", "sip=5060/sctp", "443/tcp")
		w.run("service", append(append([]string{c.service(), fmt.Sprintf("age=%d", c.IntN(3))}, ports...), addresses...)...)
	case 14:
		w.crowd(c)
	default:
		w.run("slice", append([]string{c.slice(), c.service()}, c.endpoints()...)...)
	}
}

// run says what a command would.
func (w *world) run(name string, args ...string) {
	s := &script{rig: &rig{world: w}}
	if err := s.do(name, args); err != nil {
		panic(fmt.Sprintf("looptest: %s %v: %v", name, args, err))
	}
}

// crowd adds or removes many Services at once.
func (w *world) crowd(c *chance) {
	_, here := w.services[serviceName("crowd-0")]
	if !here && !c.in(4) {
		return
	}
	for i := range crowd {
		name := fmt.Sprintf("crowd-%d", i)
		if here {
			w.run("delete", "service", name)
		} else {
			w.run("service", name, fmt.Sprintf("10.96.%d.%d", 1+i/256, i%256), "80/tcp")
			w.run("slice", name, name, "8080/tcp", fmt.Sprintf("10.244.3.%d", i%256))
		}
	}
}

func (c *chance) service() string { return fmt.Sprintf("s%d", c.IntN(6)) }

// port is a Service port as errors name it.
func (c *chance) port() string {
	return namespace + "/" + c.service() + [...]string{"", ":dns", ":sip"}[c.IntN(3)]
}

func (c *chance) slice() string { return fmt.Sprintf("slice-%d", c.IntN(10)) }

// some draws some of the words, in their order.
func (c *chance) some(words ...string) []string {
	var out []string
	for _, w := range words {
		if c.in(2) {
			out = append(out, w)
		}
	}
	return out
}

// endpoints are ports and endpoints of a slice: a few, or more than there are
// slots.
func (c *chance) endpoints() []string {
	words := []string{"8080/tcp", "dns=53/udp", "sip=5060/sctp"}
	prefix := [...]string{"10.244.%d.%d", "fd00:10:244:%d::%d"}[c.IntN(2)]
	n := c.IntN(6)
	if c.in(12) {
		n = 254 + c.IntN(4)
	}
	first := c.IntN(20)
	for i := range n {
		node := 1 + i%2
		word := fmt.Sprintf(prefix, node, first+i/2)
		if c.in(2) {
			word += fmt.Sprintf("@node-%d", node)
		}
		if !c.in(6) {
			word += [...]string{"~zone-a", "~zone-b"}[c.IntN(2)]
		}
		words = append(words, word)
	}
	return words
}
