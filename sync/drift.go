package sync

import (
	"sync/atomic"
	"time"

	"kube-vmap/nft"
	"kube-vmap/sync/throttle"
)

// drift detects whether another process has changed our tables. Twice a second it
// compares a number that counts changes of nf_tables by others (see [Kernel]). Only if
// that has changed a goroutine reads the tables, and compares them with the rules as
// they were when the read began.
//
// Tables with an owner cannot be changed by others, and need none of this.
//
// It does not subscribe to notifications of nf_tables: a listener makes every commit on
// the machine several times slower.
type drift struct {
	kernel    Kernel
	protected bool        // others cannot change our tables
	reader    TableReader // nil to read nothing
	ticker    *time.Ticker
	found     chan driftResult

	foreign uint32 // the count of foreign changes when our tables were last known to be right
	version int    // how often we have changed our tables
	reading bool
	repeats int           // reads in a row that changes made useless
	took    time.Duration // by these reads
	pace    throttle.Throttle
	failure atomic.Pointer[ReadFailure]

	// suspected: another process has changed our tables, which the next full comparison repairs.
	suspected bool
	// ownedLate: others changed nf_tables between our read of the tables and our taking
	// ownership of them.
	ownedLate bool
}

// TableReader reads our tables on a connection of its own, concurrently to the loop.
type TableReader interface {
	// ReadOnce returns what it read, and whether nf_tables did not change meanwhile. If it
	// did, the result may be a mixture of before and after.
	ReadOnce() (have nft.Tables, whole bool, err error)
}

// A ReadFailure is when and why the tables could not be compared with the desired ones,
// the first time since they last could. Changes of Services are programmed all the same.
type ReadFailure struct {
	Since time.Time
	Err   error
}

// ReadFailure returns nil if the last comparison succeeded. It may be called at any time.
func (l *Loop) ReadFailure() *ReadFailure { return l.drift.failure.Load() }

// driftResult is the result of one read.
type driftResult struct {
	foreign uint32
	version int
	repair  nft.Batch
	whole   bool
	err     error
	took    time.Duration
}

const (
	// driftPollInterval is how often to check for foreign changes.
	driftPollInterval = 500 * time.Millisecond
	// maxDriftRepeats is how often a read is repeated concurrently before the loop waits for it.
	maxDriftRepeats = 3
)

// newDrift returns a detector, which does nothing if the tables are protected or without
// a reader.
func newDrift(c Config, k Kernel) *drift {
	d := &drift{
		kernel: k, protected: c.Rules.Protect, found: make(chan driftResult, 1),
		pace: c.Background.Throttle(0),
	}
	if c.DriftReader != nil && !d.protected {
		d.reader, d.ticker = c.DriftReader, time.NewTicker(driftPollInterval)
	}
	return d
}

// tick returns the channel that fires when a check is due.
func (d *drift) tick() <-chan time.Time {
	if d.ticker == nil {
		return nil
	}
	return d.ticker.C
}

// changed notes that we have changed our tables.
func (d *drift) changed() { d.version++ }

// possible reports whether others can have changed our tables since they were known to
// be right.
func (d *drift) possible() bool { return !d.protected && d.disturbed() }

// disturbed reports whether others have changed anything of nf_tables since then.
func (d *drift) disturbed() bool {
	foreign, err := d.kernel.ForeignChanges()
	return err != nil || foreign != d.foreign
}

// compared notes that a batch was applied that repairs everything in the tables that were
// read. It reports whether this reverted changes of another process.
func (d *drift) compared(have nft.Tables, repair nft.Batch) (reverted bool) {
	d.changed()
	d.failure.Store(nil)
	d.ownedLate = d.protected && have.Orphaned() && d.disturbed()
	reverted, d.suspected = d.suspected && len(repair) > 0, false
	return reverted
}

// mustCompareAgain reports whether the tables, which were not ours yet when they were read, may
// not be as we left them.
func (d *drift) mustCompareAgain(rules *nft.Ruleset) bool {
	if !d.ownedLate {
		return false
	}
	found := d.readHere(rules)
	d.ownedLate, d.suspected = false, len(found.repair) > 0
	return found.err != nil || d.suspected
}

// startRead starts a read if others have changed anything.
func (d *drift) startRead(rules *nft.Ruleset) {
	if rules == nil || d.reading || d.pace.Remaining() > 0 {
		return
	}
	if foreign, err := d.kernel.ForeignChanges(); err == nil && foreign != d.foreign {
		d.repeats, d.took = 0, 0
		d.read(rules, foreign)
	}
}

// read reads on another goroutine.
func (d *drift) read(rules *nft.Ruleset, foreign uint32) {
	d.reading = true
	result := driftResult{foreign: foreign, version: d.version}
	go func(expected *nft.Ruleset) {
		start := time.Now()
		have, whole, err := d.reader.ReadOnce()
		if result.whole, result.err = whole, err; err == nil {
			result.repair = expected.Repair(have)
		}
		result.took = time.Since(start)
		d.found <- result
	}(rules.Snapshot())
}

// repeatRead repeats a read, unless that was done maxDriftRepeats times.
func (d *drift) repeatRead(rules *nft.Ruleset) bool {
	foreign, err := d.kernel.ForeignChanges()
	if err != nil || d.repeats == maxDriftRepeats {
		return false
	}
	d.repeats++
	d.read(rules, foreign)
	return true
}

// readHere reads on the loop's goroutine, to keep our own state from changing.
func (d *drift) readHere(rules *nft.Ruleset) (r driftResult) {
	start := time.Now()
	if r.foreign, r.err = d.kernel.ForeignChanges(); r.err != nil {
		return r
	}
	var have nft.Tables
	if have, r.err = d.kernel.Read(); r.err == nil {
		r.repair = rules.Repair(have)
	}
	r.took = time.Since(start)
	return r
}

// handleDrift reverts foreign changes found by a background read. If the tables changed
// during that read, it is repeated, at last on the loop's goroutine, where our own state
// cannot change.
func (l *Loop) handleDrift(found driftResult) {
	l.drift.reading = false
	if l.rules == nil {
		return
	}
	start := time.Now()
	l.drift.took += found.took
	if found.err != nil || len(found.repair) > 0 && (!found.whole || found.version != l.drift.version) {
		if l.drift.repeatRead(l.rules) {
			return
		}
		found = l.drift.readHere(l.rules)
		l.drift.took += found.took
	}
	l.drift.pace.Pause(l.drift.took)
	if found.err != nil {
		if l.drift.failure.CompareAndSwap(nil, &ReadFailure{start, found.err}) {
			l.log.Warn("cannot compare tables, foreign changes not repaired", "err", found.err)
		}
		return
	}
	l.drift.failure.Store(nil)
	l.drift.foreign = found.foreign
	if len(found.repair) == 0 {
		return
	}
	r, err := l.send(found.repair)
	if err != nil {
		l.handleFailure(err)
		l.drift.suspected = true
		l.config.Observer.Synced(Result{Err: err, Took: time.Since(start)})
		return
	}
	l.drift.changed()
	r.Drift = true
	l.logResult(r)
	var all nft.Change
	for _, f := range l.rules.Installed() {
		all.Set = append(all.Set, *f.Frontend)
	}
	l.notifyFollowers(all, true) // flows that began meanwhile may have no endpoint
	l.observe(r, start)          // without the changes that wait, which the repair does not include
}
