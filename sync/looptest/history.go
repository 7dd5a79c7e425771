package looptest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// HistoryOptions are the options of History.
type HistoryOptions struct {
	Seed   uint64
	Events int
	// Faults are the shares of calls to the kernel that fail. If Faults.Refused is not zero,
	// the kernel also refuses some Services for a while, and other programs change our
	// tables.
	Faults kerneltest.FaultRates
}

// History gives a loop a random history of events. It checks that in the end the kernel
// holds what it should, and that another loop then changes nothing.
func History(t *testing.T, k sync.Kernel, o HistoryOptions) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		faulty := o.Faults.Refused > 0
		h := &history{newRig(k, o.Faults, o.Seed), &random{rand.New(rand.NewPCG(o.Seed, 1))}, faulty}
		h.start()
		defer func() {
			_ = h.stop()
			if t.Failed() {
				t.Logf("the end of the log:\n%s", h.logTail(50))
			}
		}()
		for range o.Events {
			h.step(t)
		}
		h.faulty.ClearFaults()
		h.settle(t)
		h.meter.take(&h.meter.batches)
		h.restart(t)
		h.settle(t)
		if n := h.meter.take(&h.meter.batches); n != 0 {
			t.Errorf("a loop that found everything in order applied %d batches", n)
		}
	})
}

// history is a running history.
type history struct {
	*rig
	*random
	hostile bool // the kernel refuses some Services, and other programs change our tables
}

// step changes an object, and at random sends the changes, lets time pass, or restarts
// the loop.
func (h *history) step(t *testing.T) {
	t.Helper()
	h.change(h.random)
	if h.hostile && h.in(6) {
		h.faulty.Refuse(h.port(), [...]syscall.Errno{0, 0, unix.ERANGE, unix.ENFILE}[h.IntN(4)], h.IntN(2))
	}
	if h.hostile && h.in(20) {
		h.damage()
	}
	if !h.in(3) {
		if err := h.sendBurst(); err != nil {
			t.Fatal(err)
		}
		if err := h.checkSnapshot(); err != nil && !h.hostile {
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

// damage changes our tables as another program might, if they exist.
func (h *history) damage() {
	what := [][]string{
		{"delete", "tables"},
		{"flush", "nat-prerouting"},
		{"flush", "lb-1"},
		{"empty", "services"},
		{"empty", "endpoints-0"},
		{"empty", "hairpin"},
	}
	_ = (&script{rig: h.rig}).damage(what[h.IntN(len(what))])
}

func (h *history) restart(t *testing.T) {
	t.Helper()
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	h.start()
	if err := h.sendBurst(); err != nil {
		t.Fatal(err)
	}
}

// settle waits until everything that failed was retried, and checks the kernel.
func (h *history) settle(t *testing.T) {
	t.Helper()
	if err := h.sendBurst(); err != nil {
		t.Fatal(err)
	}
	h.wait(2 * time.Minute)
	if err := errors.Join(h.check(), h.checkSnapshot()); err != nil {
		t.Fatal(err)
	}
}

// random draws objects.
type random struct{ *rand.Rand }

// in reports true once in n times.
func (c *random) in(n int) bool { return c.IntN(n) == 0 }

// crowdSize is how many Services are sometimes added or removed together, so that maps
// outgrow their initial size.
const crowdSize = 450

// change makes a random change. Names, addresses and ports are few, so that Services
// return, and claim the same addresses.
func (o *objects) change(c *random) {
	switch c.IntN(24) {
	case 0:
		o.run("node", [...]string{"", "zone-a", "zone-b"}[c.IntN(3)])
	case 1, 2:
		o.run("cidrs", c.some("10.96.0.0/16", "10.97.0.0/16", "10.96.0.0/12", "fd00:10:96::/112")...)
	case 3, 4, 5:
		o.run("delete", "service", c.service())
	case 6, 7:
		o.run("delete", "slice", c.slice())
	case 8, 9, 10, 11, 12, 13:
		addresses := c.some("10.96.0.1", "10.96.0.2", "10.96.0.3", "fd00:10:96::1", "fd00:10:96::2")
		ports := c.some("80/tcp", "dns=53/udp", "sip=5060/sctp", "443/tcp")
		options := append(c.some("external=203.0.113.1", "external=2001:db8::1"), c.choice()...)
		o.run("service", slices.Concat([]string{c.service(), fmt.Sprintf("age=%d", c.IntN(3))}, ports, addresses, options)...)
	case 14:
		o.crowd(c)
	default:
		o.run("slice", append([]string{c.slice(), c.service()}, c.endpoints()...)...)
	}
}

// run runs a command that changes an object.
func (o *objects) run(name string, args ...string) {
	s := &script{rig: &rig{objects: o}}
	if err := s.do(name, args); err != nil {
		panic(fmt.Sprintf("looptest: %s %v: %v", name, args, err))
	}
}

// crowd adds or removes many Services together.
func (o *objects) crowd(c *random) {
	_, here := o.current[serviceKey(serviceName("crowd-0"))]
	if !here && !c.in(4) {
		return
	}
	for i := range crowdSize {
		name := fmt.Sprintf("crowd-%d", i)
		if here {
			o.run("delete", "service", name)
		} else {
			o.run("service", name, fmt.Sprintf("10.96.%d.%d", 1+i/256, i%256), "80/tcp")
			o.run("slice", name, name, "8080/tcp", fmt.Sprintf("10.244.3.%d", i%256))
		}
	}
}

// choice draws how endpoints are chosen. The table of mh makes histories slow, so it is rare.
func (c *random) choice() []string {
	var words []string
	switch c.IntN(16) {
	case 0:
		words = append(words, "scheduler=mh")
	case 1, 2, 3:
		words = append(words, "scheduler="+[...]string{"rr", "sh", "lc"}[c.IntN(3)])
	case 4, 5, 6:
		words = append(words, "affinity="+[...]string{"90s", "3h", "24h"}[c.IntN(3)])
	}
	if c.in(6) {
		words = append(words, "local")
	}
	return words
}

func (c *random) service() string { return fmt.Sprintf("s%d", c.IntN(6)) }

// port draws a Service port, named as in errors.
func (c *random) port() string {
	return namespace + "/" + c.service() + [...]string{"", ":dns", ":sip"}[c.IntN(3)]
}

func (c *random) slice() string { return fmt.Sprintf("slice-%d", c.IntN(10)) }

// some draws some of the words, in their order.
func (c *random) some(words ...string) []string {
	var out []string
	for _, w := range words {
		if c.in(2) {
			out = append(out, w)
		}
	}
	return out
}

// endpoints draws ports and endpoints of a slice: a few, or more than there are slots.
func (c *random) endpoints() []string {
	words := []string{"8080/tcp", "dns=53/udp", "sip=5060/sctp"}
	prefix := [...]string{"10.244.%d.%d", "fd00:10:244:%d::%d"}[c.IntN(2)]
	n := c.IntN(6)
	if c.in(12) {
		n = 254 + c.IntN(4)
	}
	if c.in(4) {
		words = append(words, fmt.Sprintf("weight=%d", [...]int{0, 1, 2, 3, 500}[c.IntN(5)]))
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
