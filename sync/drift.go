package sync

import (
	"time"

	"kube-vmap/nft"
)

// drift finds out whether somebody else has changed our tables. That anybody
// changed anything of nf_tables is a number that is asked for twice a second; only
// then is the kernel read, by a goroutine beside the loop, and compared with what
// the loop believed when the reading began.
//
// Tables that belong to us cannot be changed by others, and need none of this once
// they do.
//
// It is never subscribed to what nf_tables tells of changes: a listener makes every
// commit on the machine slower, several times over.
type drift struct {
	kernel    Kernel
	protected bool        // others cannot change our tables
	reader    TableReader // nil if nothing is looked for
	ticker    *time.Ticker
	found     chan finding

	foreign uint32 // as of when our tables were last known to be right
	version int    // how often we have changed them
	running bool
	resting time.Time // until when nothing is read
}

// TableReader reads what the kernel holds, beside the loop.
type TableReader interface {
	// ReadOnce says with what it read whether nobody changed nf_tables meanwhile; if
	// somebody did, it may be a mixture of before and after.
	ReadOnce() (have nft.Tables, whole bool, err error)
}

// finding is what a reading has come to.
type finding struct {
	foreign uint32
	version int
	repair  nft.Batch
	whole   bool
	err     error
	took    time.Duration
}

const (
	// lookPeriod is how often it is asked whether anybody changed anything.
	lookPeriod = 500 * time.Millisecond
	// readShare is how much longer nothing is read than a reading took: where others
	// change nf_tables all the time, readings take no more than a twentieth of a
	// processor.
	readShare = 19
)

// newDrift makes what looks for drift, or what does nothing where there can be none.
func newDrift(c Config, k Kernel) *drift {
	d := &drift{kernel: k, protected: c.Rules.Protect, found: make(chan finding, 1)}
	if c.DriftReader != nil && !d.protected {
		d.reader, d.ticker = c.DriftReader, time.NewTicker(lookPeriod)
	}
	return d
}

// tick delivers when it is time to look.
func (d *drift) tick() <-chan time.Time {
	if d.ticker == nil {
		return nil
	}
	return d.ticker.C
}

// adopting notes that a reading begins by which our tables will be made right.
func (d *drift) adopting(foreign uint32) { d.foreign = foreign }

// changed notes that we have changed our tables.
func (d *drift) changed() { d.version++ }

// possible reports whether others can have changed our tables since they were
// known to be right.
func (d *drift) possible() bool { return !d.protected && d.disturbed() }

// disturbed reports whether others have changed anything since then.
func (d *drift) disturbed() bool {
	foreign, err := d.kernel.ForeignChanges()
	return err != nil || foreign != d.foreign
}

// onLoop begins a reading if others have changed anything.
func (d *drift) look(rules *nft.Ruleset) {
	if rules == nil || d.running || time.Now().Before(d.resting) {
		return
	}
	foreign, err := d.kernel.ForeignChanges()
	if err != nil || foreign == d.foreign {
		return
	}
	d.running = true
	begun := finding{foreign: foreign, version: d.version}
	go func(believed *nft.Ruleset) {
		start := time.Now()
		have, whole, err := d.reader.ReadOnce()
		if begun.whole, begun.err = whole, err; err == nil {
			begun.repair = believed.Repair(have)
		}
		begun.took = time.Since(start)
		d.found <- begun
	}(rules.Snapshot())
}

// judge undoes what a reading found others to have done. A reading that says
// nothing, because tables changed under it, the loop repeats standing still.
func (l *Loop) judge(f finding) {
	l.drift.running = false
	if l.rules == nil {
		return
	}
	start := time.Now()
	if f.err != nil || len(f.repair) > 0 && (!f.whole || f.version != l.drift.version) {
		f = l.drift.readHere(l.rules)
	}
	l.drift.resting = start.Add(readShare * f.took)
	if f.err != nil {
		l.log.Debug("our tables were not compared with what the kernel holds", "err", f.err)
		return
	}
	l.drift.foreign = f.foreign
	if len(f.repair) == 0 {
		return
	}
	r, err := l.send(f.repair)
	if err != nil {
		l.fallBack(err)
		l.suspect = true
		l.observer.Synced(Result{Err: err, Took: time.Since(start)})
		return
	}
	l.drift.changed()
	r.Drift = true
	l.report(r)
	// Flows that began meanwhile may lead nowhere.
	l.tellFollowers(l.admit(l.state.all()), true)
	waiting := l.state.triggered
	l.state.triggered = nil
	l.observe(r, start)
	l.state.triggered = waiting // changes that the repair has not brought
}

// readHere reads while nothing of ours changes.
func (d *drift) readHere(rules *nft.Ruleset) (f finding) {
	start := time.Now()
	if f.foreign, f.err = d.kernel.ForeignChanges(); f.err != nil {
		return f
	}
	var have nft.Tables
	if have, f.err = d.kernel.Read(); f.err == nil {
		f.repair = rules.Repair(have)
	}
	f.took = time.Since(start)
	return f
}
