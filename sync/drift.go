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
// Tables that belong to us cannot be changed by others, and need none of this.
//
// It is never subscribed to what nf_tables tells of changes: a listener makes every
// commit on the machine slower, several times over.
type drift struct {
	kernel    Kernel
	protected bool   // others cannot change our tables
	reader    Reader // nil if nothing is looked for
	ticker    *time.Ticker
	found     chan finding

	foreign uint32 // as of when our tables were last known to be right
	version int    // how often we have changed them
	running bool
	resting time.Time // until when nothing is read
	inVain  int       // readings in a row that said nothing
}

// Reader reads what the kernel holds, beside the loop.
type Reader interface {
	Read() (nft.Tables, error)
}

// finding is what a reading has come to.
type finding struct {
	foreign uint32
	version int
	repair  nft.Batch
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
	// readTries is how many readings in a row may come to nothing, because tables
	// changed meanwhile, before the loop itself stands still and reads.
	readTries = 3
)

// newDrift makes what looks for drift, or what does nothing where there can be none.
func newDrift(c Config, k Kernel) *drift {
	d := &drift{kernel: k, protected: c.Rules.Protect, found: make(chan finding, 1)}
	if c.Beside != nil && !d.protected {
		d.reader, d.ticker = c.Beside, time.NewTicker(lookPeriod)
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

// adopted notes that our tables are right, if others have done nothing since.
func (d *drift) adopted(foreign uint32) {
	d.foreign, d.inVain = foreign, 0
	d.changed()
}

// changed notes that we have changed our tables.
func (d *drift) changed() { d.version++ }

// possible reports whether others can have changed our tables since they were
// known to be right.
func (d *drift) possible() bool {
	if d.protected {
		return false
	}
	foreign, err := d.kernel.Foreign()
	return err != nil || foreign != d.foreign
}

// look begins a reading if others have changed anything.
func (d *drift) look(rules *nft.Ruleset) {
	if rules == nil || d.running || time.Now().Before(d.resting) {
		return
	}
	foreign, err := d.kernel.Foreign()
	if err != nil || foreign == d.foreign {
		return
	}
	d.running = true
	begun := finding{foreign: foreign, version: d.version}
	go func(believed *nft.Ruleset) {
		start := time.Now()
		have, err := d.reader.Read()
		if begun.err = err; err == nil {
			begun.repair = believed.Repair(have)
		}
		begun.took = time.Since(start)
		d.found <- begun
	}(rules.Snapshot())
}

// ended takes in what a reading has come to, and says whether it says anything, and
// whether it is time to read in another way.
func (d *drift) ended(f finding) (certain, enough bool) {
	d.running = false
	d.resting = time.Now().Add(readShare * f.took)
	switch {
	case f.err == nil && len(f.repair) == 0:
		d.foreign, d.inVain = f.foreign, 0
		return true, false
	case f.err == nil && f.version == d.version:
		d.inVain = 0
		return true, false
	}
	d.inVain++
	return false, d.inVain >= readTries
}

// judge undoes what a reading found others to have done.
func (l *Loop) judge(f finding) {
	certain, enough := l.drift.ended(f)
	switch {
	case l.rules == nil || certain && len(f.repair) == 0:
		return
	case enough:
		l.log.Debug("our tables change too fast to be read beside", "err", f.err)
		l.suspect, l.rules, l.due = true, nil, true
		return
	case !certain:
		return
	}
	start := time.Now()
	r, err := l.send(f.repair)
	if err != nil {
		l.fallBack(err)
		l.suspect = true
		l.observer.Synced(Report{Err: err, Took: time.Since(start)})
		return
	}
	l.drift.adopted(f.foreign)
	r.Drift = true
	l.report(r)
	// Flows that began meanwhile may lead nowhere.
	l.tellFollowers(l.admit(l.state.all()), true)
	l.observe(r, start)
}
