package sync

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// isolate finds what is to be done so that the same change may be taken, without
// reading the kernel; false if nothing is.
func (l *Loop) isolate(err error) bool {
	var refusal *nft.Error
	if !errors.As(err, &refusal) {
		return false
	}
	if l.makeRoom(refusal) || l.setAside(refusal, l.refused.onTrial) {
		return true
	}
	return refusal.Cause() != nft.CauseState && !l.drift.possible() && l.setAside(refusal, l.refused.notOut)
}

// makeRoom has a set made anew that was refused for being full, once: what does
// not help is not repeated.
func (l *Loop) makeRoom(refusal *nft.Error) bool {
	add, isAdd := refusal.Op.(nft.AddElements)
	if refusal.Cause() != nft.CauseFull || !isAdd || slices.Contains(l.full, add.Set) {
		return false
	}
	l.full = append(l.full, add.Set)
	if l.rules != nil {
		l.rules.Outgrown(add.Set)
	}
	return true
}

// fallBack gives up what is believed of the kernel, which the next sync reads
// then: at once if the error says what to do differently, else after a while.
func (l *Loop) fallBack(err error) {
	var refusal *nft.Error
	planned := l.rules != nil
	l.rules = nil
	switch refused := errors.As(err, &refusal); {
	case refused && planned && refusal.Cause() != nft.CauseMemory && refusal.Cause() != nft.CausePermission:
		l.log.Warn("a change was refused, reading the kernel", "err", err)
		// What is not there, or is there already, is not what we left.
		l.suspect = refusal.Cause() == nft.CauseState
		l.recovery.beginAtOnce()
	case refused && (l.makeRoom(refusal) || l.setAside(refusal, l.refused.notOut)):
		l.recovery.beginAtOnce()
	default:
		l.log.Error("the kernel was not brought up to date", "err", err)
		l.recovery.begin()
	}
}

// setAside leaves out the Service ports that the kernel refused for what they are,
// so that the others can go on. False if the error is about none, or none that may
// be.
func (l *Loop) setAside(err *nft.Error, may func(name string) bool) bool {
	aside := false
	for _, culprit := range err.Culprits() {
		if !may(culprit.Service) {
			continue
		}
		aside = true
		l.suspect = false // it was the Service port, not somebody else
		level := slog.LevelDebug
		if l.refused.convict(culprit.Service, culprit.Errno) {
			level = slog.LevelError
			l.trial.reset()
			l.recorder.Warn(l.service(serviceOf(culprit.Service)), ReasonRefused, culprit.Error())
		}
		l.log.Log(context.Background(), level, "Service port is left out", "service", culprit.Service, "err", culprit)
	}
	return aside
}

// halves divides a change into two, each of whole Services; false if it has only
// one.
func halves(c nft.Change) (first, second nft.Change, divided bool) {
	byService := func(a, b model.Frontend) int { return a.Service.ServiceName.Compare(b.Service.ServiceName) }
	set := slices.SortedStableFunc(slices.Values(c.Set), byService)
	for middle := cmp.Or(len(set)/2, 1); middle < len(set); middle++ {
		if byService(set[middle-1], set[middle]) != 0 {
			first, second = c, nft.Change{Set: set[middle:]}
			first.Set = set[:middle]
			return first, second, true
		}
	}
	return c, second, false
}
