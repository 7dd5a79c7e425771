package simulate

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// numgen draws a number: any of them, in ways of their own.
func (w *walk) numgen(e *expr.Numgen) (verdict, error) {
	how := "at random"
	if e.Type == unix.NFT_NG_INCREMENTAL {
		how = "the next in turn, of which the kernel does not say which that is"
	}
	if e.Modulus == 0 {
		return verdictBreak, undecidedError("a number of nothing")
	}
	n := w.choose(e.Modulus, w.place.isOurs())
	w.notePick(e.Modulus, how)
	return verdictContinue, w.regs.load(e.Register, known(nativeBytes(e.Offset+n)))
}

// hash makes a number of what was loaded. Where not all of that is known, it may be
// any.
func (w *walk) hash(e *expr.Hash) (verdict, error) {
	if e.Type != expr.HashTypeJenkins || e.Modulus == 0 {
		return verdictBreak, undecidedError("a hash of another kind")
	}
	v, err := w.regs.read(e.SourceRegister, int(e.Length))
	if err != nil {
		return verdictBreak, err
	}
	var n uint32
	if v.isKnown() {
		n = scale(jhash(v.bytes, e.Seed), e.Modulus)
		w.notePick(e.Modulus, fmt.Sprintf("by the client's hash: number %d", n))
	} else {
		n = w.choose(e.Modulus, w.place.isOurs())
		w.notePick(e.Modulus, "by the hash of the client's port, which is not named")
	}
	return verdictContinue, w.regs.load(e.DestRegister, known(nativeBytes(e.Offset+n)))
}

// notePick reports whether an expression is a pick.
func isPick(e any) bool {
	switch e.(type) {
	case *expr.Numgen, *expr.Hash:
		return true
	}
	return false
}

// choices are what picks came to on a way.
type choices struct {
	made []choice
	next int
}

type choice struct {
	index, total uint32
	explored     uint32 // how many of them are looked at
	ours         bool   // a table of ours picks, so that all of them are endpoints
}

const (
	// maxChoicesPerPick is how many choices of one pick are looked at: all there are where
	// Services spread over slots, and the first ones of a Service that is larger.
	maxChoicesPerPick = 256
	// maxWalks is how many ways are gone, of picks behind each other.
	maxWalks = 4096
)

// choose makes the next choice: what the way was told, or the first one.
func (c *choices) choose(of uint32, ours bool) uint32 {
	if c.next == len(c.made) {
		c.made = append(c.made, choice{total: of, explored: min(of, maxChoicesPerPick, c.remaining()), ours: ours})
	}
	c.next++
	return c.made[c.next-1].index
}

// remaining is how many choices the next pick may have looked at. Since the ways branch in
// no more than mostWays along any of them, there are no more in all; and as earlier picks
// take what they need first, all endpoints are seen before all that comes of one.
func (c *choices) remaining() uint32 {
	room := uint32(maxWalks)
	for _, made := range c.made {
		room /= made.explored
	}
	return max(room, 1)
}

// advance makes the choices of the way that follows; false if that was the last.
func (c *choices) advance() bool {
	c.next = 0
	for n := len(c.made); n > 0; n-- {
		last := &c.made[n-1]
		if last.index++; last.index < last.explored {
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
		p /= float64(made.total)
	}
	return p
}
