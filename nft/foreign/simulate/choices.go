package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/jhash"
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
	total, err := w.slotsInUse(e.Modulus, e.Register)
	if err != nil {
		return verdictBreak, err
	}
	n := w.choose(total, w.position.own)
	w.notePick(total, how)
	return verdictContinue, w.regs.load(e.Register, known(nativeBytes(e.Offset+n)))
}

// hash returns a hash of what was loaded. If that is not fully known, or the hash is one of which
// the kernel does not report the seed, it may be any number.
func (w *walk) hash(e *expr.Hash) (verdict, error) {
	if e.Modulus == 0 {
		return verdictBreak, undecidedError("a hash modulo zero")
	}
	v, err := w.regs.read(max(e.SourceRegister, unix.NFT_REG_1), int(e.Length))
	if err != nil {
		return verdictBreak, err
	}
	var n uint32
	if e.Type == expr.HashTypeJenkins && v.isKnown() {
		n = jhash.Mod(v.bytes, e.Modulus, e.Seed)
		w.notePick(e.Modulus, fmt.Sprintf("by the client's hash: number %d", n))
	} else {
		total, err := w.slotsInUse(e.Modulus, e.DestRegister)
		if err != nil {
			return verdictBreak, err
		}
		n = w.choose(total, w.position.own)
		w.notePick(total, "by a hash of the client that is not known")
	}
	return verdictContinue, w.regs.load(e.DestRegister, known(nativeBytes(e.Offset+n)))
}

// slotsInUse returns how many of n slots exist for the key in the registers before the pick's, in
// a chain that picks again until it finds one ([Own]). For other chains it returns n.
func (w *walk) slotsInUse(n, register uint32) (uint32, error) {
	name := ""
	if w.position.own {
		name = w.Own.Slots(w.position.chain)
	}
	if name == "" {
		return n, nil
	}
	set, err := w.set(w.position.chain.Table, name)
	if err != nil {
		return n, err
	}
	length, err := registerOffset(register)
	if err != nil {
		return n, err
	}
	key, err := w.regs.read(unix.NFT_REG_1, length)
	if err != nil || !key.isKnown() {
		return n, err
	}
	used := sort.Search(int(n), func(slot int) bool {
		_, found, e := w.element(w.position.chain.Table, set, slices.Concat(key.bytes, nativeBytes(uint32(slot))))
		err = cmp.Or(err, e)
		return !found
	})
	return uint32(max(used, 1)), err
}

// choices are the results of the picks on a walk, and of what cannot be decided.
//
// They are the nodes of a tree, which the walks pass in order, with the first result of each
// first. At an undecided match, the first result is that the rule does not match. Walks that
// have no other result of such a match are main walks, and only those are the Result; the
// others only show whether the match makes a difference.
type choices struct {
	made []choice
	next int
	// perPick and walks limit how much is explored: results of a pick, and walks.
	perPick, walks uint32

	// mainWalks and alternatives are the numbers of walks so far.
	mainWalks, alternatives int
	// stopped is true if there are more main walks than the limit.
	stopped bool
	doubts  []Doubt  // for matches that make a difference
	repeat  []choice // what the next picks are: the same as before, for a chain that runs again
}

type choice struct {
	index, total uint32
	explored     uint32  // how many of them are tried
	own          bool    // in a table of the caller, and so all of them are endpoints
	first        float64 // probability of the first of two, if the other has another one
	undecided    *undecided
}

// An undecided is a match that cannot be decided, or another thing that is not known, with the
// distributions of the results if it does not match and if it does.
type undecided struct {
	doubt   Doubt
	results [2]distribution
	cut     bool // not all walks with a match are run
}

// A distribution is the probabilities of results.
type distribution map[outcomeKey]float64

// equals reports whether results have the same shares in both distributions.
func (d distribution) equals(other distribution) bool {
	const tolerance = 1e-6
	if len(d) != len(other) {
		return false
	}
	sum, otherSum := d.sum(), other.sum()
	for k, p := range d {
		if q, ok := other[k]; !ok || math.Abs(p/sum-q/otherSum) > tolerance {
			return false
		}
	}
	return true
}

func (d distribution) sum() (sum float64) {
	for _, p := range d {
		sum += p
	}
	return sum
}

const (
	// maxChoicesPerPick is how many results of one pick are tried: all for Services that
	// spread over slots, or have different weights, and the first ones for a larger Service.
	maxChoicesPerPick = 1024
	// maxWalks is the limit of walks of [Run], and of those that assume an undecided match.
	maxWalks = 4096
)

// choose returns the result of the next pick on the walk; the first possible one if the
// pick is new.
func (c *choices) choose(of uint32, own bool) uint32 {
	return c.take(func() choice {
		return choice{total: of, explored: min(of, c.perPick, c.remaining()), own: own}
	})
}

// chooseFirst reports whether the first of two results is picked, which has a probability.
func (c *choices) chooseFirst(probability float64) bool {
	return c.take(func() choice { return choice{total: 2, explored: 2, first: probability} }) == 0
}

func (c *choices) assume(doubt Doubt) bool { return c.assumeOneOf(2, doubt) == 1 }

// assumeOneOf returns which of several things is assumed that are not known; the first one on main
// walks.
func (c *choices) assumeOneOf(n int, doubt Doubt) int {
	return int(c.take(func() choice {
		return choice{
			total: 1, explored: uint32(n), undecided: &undecided{doubt: doubt, results: [2]distribution{{}, {}}},
		}
	}))
}

func (c *choices) take(fresh func() choice) uint32 {
	if len(c.repeat) > 0 {
		first := c.repeat[0]
		c.repeat = c.repeat[1:]
		return first.index
	}
	if c.next == len(c.made) {
		c.made = append(c.made, fresh())
	}
	c.next++
	return c.made[c.next-1].index
}

// remaining returns how many results of the next pick may be tried, for at most
// [choices.walks]. Earlier picks take what they need first, so all endpoints are tried
// before the variants of one. Picks of two and undecided matches do not count, because many
// of them end in few walks; see advance.
func (c *choices) remaining() uint32 {
	room := c.walks
	for _, made := range c.made {
		if made.first == 0 && made.undecided == nil {
			room /= made.explored
		}
	}
	return max(room, 1)
}

// isMain reports whether the walk assumes no undecided match.
func (c *choices) isMain() bool {
	return !slices.ContainsFunc(c.made, func(made choice) bool { return made.undecided != nil && made.index > 0 })
}

// addResult adds the result of a walk to the undecided matches on it.
func (c *choices) addResult(k outcomeKey) {
	if c.isMain() {
		c.mainWalks++
	} else {
		c.alternatives++
	}
	p := c.probability()
	for i := len(c.made) - 1; i >= 0; i-- {
		u := c.made[i].undecided
		if u == nil {
			continue
		}
		u.results[min(c.made[i].index, 1)][k] += p
		if c.made[i].index > 0 {
			return // earlier ones compare what is the result if this one does not match
		}
	}
}

// advance prepares the next walk; it returns false after the last one.
func (c *choices) advance() bool {
	c.next = 0
	for n := len(c.made); n > 0; n-- {
		last := &c.made[n-1]
		if last.index+1 < last.explored && c.mayAdvance(last) {
			last.index++
			c.made = c.made[:n]
			return true
		}
		if u := last.undecided; u != nil && (u.cut || !u.results[0].equals(u.results[1])) {
			c.doubts = union([]Doubt{u.doubt}, c.doubts) // a later match is known first
		}
		c.made = c.made[:n-1]
	}
	return false
}

// mayAdvance reports whether there may be another walk. If not, it notes what is missing.
func (c *choices) mayAdvance(last *choice) bool {
	alternative := last.undecided != nil || !c.isMain()
	switch {
	case !alternative && c.mainWalks >= int(c.walks):
		c.stopped = true
	case alternative && c.alternatives >= int(c.walks):
		for _, made := range c.made {
			if made.undecided != nil && (made.index > 0 || made.undecided == last.undecided) {
				made.undecided.cut = true
			}
		}
	default:
		return true
	}
	return false
}

func (c *choices) probability() float64 {
	p := 1.0
	for _, made := range c.made {
		switch {
		case made.first == 0:
			p /= float64(made.total)
		case made.index == 0:
			p *= made.first
		default:
			p *= 1 - made.first
		}
	}
	return p
}
