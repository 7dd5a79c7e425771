package sync

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// errOwned is that the tables belong to another process.
var errOwned = errors.New("not ours")

// ownedPeriod is how often it is looked whether they still do.
const ownedPeriod = time.Second

// isolate finds what is to be done so that the same change may be taken, without
// reading the kernel; false if nothing is.
func (l *Loop) isolate(err error) bool {
	var refusal *nft.Error
	if !errors.As(err, &refusal) {
		return false
	}
	switch {
	case l.makeRoom(refusal):
		return true
	case refusal.Cause() == nft.CauseState:
		return false
	case l.setAside(refusal, l.refused.onTrial):
		return true
	}
	return !l.drift.possible() && l.setAside(refusal, l.refused.notOut)
}

// makeRoom has a set made anew that was refused for being full, once: what does
// not help is not repeated.
func (l *Loop) makeRoom(refusal *nft.Error) bool {
	set, adds := refusal.Fills()
	if refusal.Cause() != nft.CauseFull || !adds || slices.Contains(l.full, set) {
		return false
	}
	l.full = append(l.full, set)
	if l.rules != nil {
		l.rules.MarkFull(set)
	}
	return true
}

// fallBack gives up what is believed of the kernel, which the next sync reads
// then: at once if the error says what to do differently, else after a while.
func (l *Loop) fallBack(err error) {
	var refusal *nft.Error
	planned := l.rules != nil
	l.forget()
	switch refused := errors.As(err, &refusal); {
	case errors.Is(err, errOwned):
		// Told once. Whose they are may end at any time, and then nobody follows changes.
		l.log.Log(context.Background(), l.ownedLevel, "waiting for the tables", "err", err)
		l.ownedLevel = slog.LevelDebug
		l.recovery.beginFor(ownedPeriod)
	case refused && planned && refusal.Cause() != nft.CauseMemory && refusal.Cause() != nft.CausePermission:
		l.log.Warn("a change was refused, reading the kernel", "err", err)
		// What is not there, or is there already, is not what we left.
		l.suspect = refusal.Cause() == nft.CauseState
		l.recovery.beginAtOnce()
	case refused && l.makeRoom(refusal):
		l.recovery.beginAtOnce()
	// That something is missing, or there already, may be what others did since it was read.
	case refused && !(refusal.Cause() == nft.CauseState && l.drift.disturbed()) && l.setAside(refusal, l.refused.notOut),
		refused && l.starve(refusal):
		l.recovery.beginAtOnce()
	default:
		l.log.Error("the kernel was not brought up to date", "err", err)
		l.recovery.begin()
	}
}

// starve leaves out the Service port for which there was no memory twice in a row
// when all was compared: without it, there may be enough for the others.
func (l *Loop) starve(refusal *nft.Error) bool {
	if refusal.Cause() != nft.CauseMemory || !refusal.NamesService() {
		return false
	}
	if l.starved != refusal.Service {
		l.starved = refusal.Service
		return false
	}
	l.convict(refusal)
	return true
}

// setAside leaves out the Service ports that the kernel refused for what they are,
// so that the others can go on. False if the error is about none, or none that may
// be.
func (l *Loop) setAside(err *nft.Error, may func(model.ServicePortName) bool) bool {
	aside := false
	for _, culprit := range err.Offenders() {
		if !may(culprit.Service) {
			continue
		}
		aside = true
		l.convict(culprit)
	}
	return aside
}

// convict leaves out the Service port that an error names.
func (l *Loop) convict(culprit *nft.Error) {
	l.suspect = false // it was the Service port, not somebody else
	level := slog.LevelDebug
	if l.refused.convict(culprit) {
		level = slog.LevelError
		l.trial.reset()
		l.recorder.Warn(l.service(culprit.Service.ServiceName), ReasonRefused, culprit.Error())
	}
	l.log.Log(context.Background(), level, "Service port is left out", "service", culprit.Service.String(), "err", culprit)
}
