package simulate

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// numgen returns a number; each possible one has a walk of its own.
func (w *walk) numgen(e *expr.Numgen) (verdict, error) {
	how := "at random"
	if e.Type == unix.NFT_NG_INCREMENTAL {
		how = "the next in turn, of which the kernel does not say which that is"
	}
	if e.Modulus == 0 {
		return verdictBreak, undecidedError("a number modulo zero")
	}
	n := w.choose(e.Modulus, w.position.isOurs())
	w.notePick(e.Modulus, how)
	return verdictContinue, w.regs.load(e.Register, known(nativeBytes(e.Offset+n)))
}

// hash returns a hash of what was loaded. If that is not fully known, it may be any number.
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
		n = w.choose(e.Modulus, w.position.isOurs())
		w.notePick(e.Modulus, "by the hash of the client's port, which is not named")
	}
	return verdictContinue, w.regs.load(e.DestRegister, known(nativeBytes(e.Offset+n)))
}

// isPick reports whether an expression picks a number.
func isPick(e any) bool {
	switch e.(type) {
	case *expr.Numgen, *expr.Hash:
		return true
	}
	return false
}

// choices are the results of the picks on a walk.
type choices struct {
	made []choice
	next int
}

type choice struct {
	index, total uint32
	explored     uint32 // how many of them are tried
	ours         bool   // in a table of ours, so that all of them are endpoints
}

const (
	// maxChoicesPerPick is how many results of one pick are tried: all for Services that
	// spread over slots, or have different weights, and the first ones for a larger Service.
	maxChoicesPerPick = 1024
	// maxWalks is the maximum number of walks.
	maxWalks = 4096
)

// choose returns the result of the next pick on the walk; the first possible one if the
// pick is new.
func (c *choices) choose(of uint32, ours bool) uint32 {
	if c.next == len(c.made) {
		c.made = append(c.made, choice{total: of, explored: min(of, maxChoicesPerPick, c.remaining()), ours: ours})
	}
	c.next++
	return c.made[c.next-1].index
}

// remaining returns how many results of the next pick may be tried, so that there are at
// most maxWalks walks. Earlier picks take what they need first, so all endpoints are tried
// before the variants of one.
func (c *choices) remaining() uint32 {
	room := uint32(maxWalks)
	for _, made := range c.made {
		room /= made.explored
	}
	return max(room, 1)
}

// advance prepares the next walk; it returns false after the last one.
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

// probability returns the probability of the choices made.
func (c *choices) probability() float64 {
	p := 1.0
	for _, made := range c.made {
		p /= float64(made.total)
	}
	return p
}
