package explain

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// numgen draws a number: any of them, in ways of their own.
func (w *way) numgen(e *expr.Numgen) (verdict, error) {
	how := "at random"
	if e.Type == unix.NFT_NG_INCREMENTAL {
		how = "the next in turn, of which the kernel does not say which that is"
	}
	if e.Modulus == 0 {
		return breaks, unsaidError("a number of nothing")
	}
	n := w.choose(e.Modulus)
	w.picks(e.Modulus, how)
	return goesOn, w.regs.load(e.Register, known(native(e.Offset+n)))
}

// hash makes a number of what was loaded. Where not all of that is known, it may be
// any.
func (w *way) hash(e *expr.Hash) (verdict, error) {
	if e.Type != expr.HashTypeJenkins || e.Modulus == 0 {
		return breaks, unsaidError("a hash of another kind")
	}
	v, err := w.regs.read(e.SourceRegister, int(e.Length))
	if err != nil {
		return breaks, err
	}
	var n uint32
	if v.certain() {
		n = scale(jhash(v.bytes, e.Seed), e.Modulus)
		w.picks(e.Modulus, fmt.Sprintf("by the client's hash: number %d", n))
	} else {
		n = w.choose(e.Modulus)
		w.picks(e.Modulus, "by the hash of the client's port, which is not named")
	}
	return goesOn, w.regs.load(e.DestRegister, known(native(e.Offset+n)))
}

// choices are what picks came to on a way.
type choices struct {
	made []choice
	next int
}

type choice struct {
	pick, of uint32
	explored uint32 // how many of them are looked at
}

// mostPicks is how many choices of one pick are looked at: all there are where
// Services spread over slots, and the first ones of a Service that is larger.
const mostPicks = 256

// choose makes the next choice: what the way was told, or the first one.
func (c *choices) choose(of uint32) uint32 {
	if c.next == len(c.made) {
		c.made = append(c.made, choice{of: of, explored: min(of, mostPicks)})
	}
	c.next++
	return c.made[c.next-1].pick
}

// advance makes the choices of the way that follows; false if that was the last.
func (c *choices) advance() bool {
	c.next = 0
	for n := len(c.made); n > 0; n-- {
		last := &c.made[n-1]
		if last.pick++; last.pick < last.explored {
			c.made = c.made[:n]
			return true
		}
	}
	return false
}

// probability is that of the choices made.
func (c *choices) probability() float64 {
	p := 1.0
	for _, made := range c.made {
		p /= float64(made.of)
	}
	return p
}
