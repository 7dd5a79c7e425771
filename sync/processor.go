package sync

import (
	"maps"
	"runtime"
	"slices"
	"time"

	"kube-vmap/model"
)

// Bounds of the processor time that changes of one namespace take.
const (
	// restFactor times the processor time of changes is the time until they are paid off:
	// the changes of one namespace take a tenth of one processor.
	restFactor = 10
	// A namespace may be so far behind before its changes are postponed: 200 ms of processor
	// time in a row. Ordinary changes take less than a millisecond.
	restAllowance = 2 * time.Second
	// maxRest is the longest time that changes are postponed, whatever they cost.
	maxRest = 5 * time.Second
)

// processorShares postpone changes of a namespace that has used more than its share of the
// loop's time, to protect the changes of others. See [model.ServiceMap.ChangesExcept] for
// what is never postponed.
type processorShares struct {
	// cpuTime returns the processor time of the calling thread; nil means that nothing is
	// postponed.
	cpuTime func() time.Duration
	// paidOff is when the changes of a namespace have been paid off, in the future.
	paidOff map[string]time.Time
	timer   *time.Timer // fires when a namespace is no longer postponed
}

func (p *processorShares) waits(namespace string) bool {
	return time.Until(p.paidOff[namespace]) > restAllowance
}

// begin begins to measure. The returned function charges the time used since then.
func (p *processorShares) begin() (charge func(model.Changes)) {
	if p.cpuTime == nil {
		return func(model.Changes) {}
	}
	runtime.LockOSThread()
	before := p.cpuTime()
	return func(c model.Changes) {
		p.charge(c.Work, p.cpuTime()-before)
		runtime.UnlockOSThread()
		p.schedule(c.Postponed)
	}
}

// charge divides the time among the namespaces in proportion to their work.
func (p *processorShares) charge(work map[string]int, used time.Duration) {
	now, sum := time.Now(), 0
	maps.DeleteFunc(p.paidOff, func(_ string, at time.Time) bool { return at.Before(now) })
	for _, n := range work {
		sum += n
	}
	for namespace, n := range work {
		rest := max(time.Until(p.paidOff[namespace]), 0) + time.Duration(restFactor*float64(used)*float64(n)/float64(sum))
		p.paidOff[namespace] = now.Add(min(rest, restAllowance+maxRest))
	}
}

// schedule starts the timer for the first of the postponed namespaces.
func (p *processorShares) schedule(postponed []string) {
	if len(postponed) == 0 {
		p.timer.Stop()
		return
	}
	first := slices.MinFunc(postponed, func(a, b string) int { return p.paidOff[a].Compare(p.paidOff[b]) })
	p.timer.Reset(time.Until(p.paidOff[first]) - restAllowance)
}
