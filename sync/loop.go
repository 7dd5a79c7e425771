package sync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/nft"
)

// Kernel is what the loop needs of the kernel.
type Kernel interface {
	// Read returns what the kernel holds under our name.
	Read() (nft.Tables, error)
	// Apply makes the kernel take the batch whole or not at all.
	Apply(nft.Batch) (nft.Applied, error)
}

// Loop keeps the kernel as the source wants it. One goroutine owns all state:
// it takes what events have come, works out one batch, applies it, and only
// then believes it.
type Loop struct {
	config Config
	source Source
	kernel Kernel
	log    *slog.Logger

	state *state
	// rules is what the kernel holds; nil when that is not known, at the start
	// and after an error.
	rules *nft.Ruleset
	// refused are Service ports that the kernel would not take, by the name that
	// errors give them. They are left out until they are tried again.
	refused map[string]error
	backoff wait.Backoff
	ready   chan struct{}
}

// How long to wait after an error, and how many bursts may queue up while the
// kernel works.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
	queued     = 64
)

// NewLoop makes a loop; nothing happens before Run.
func NewLoop(c Config, source Source, kernel Kernel, log *slog.Logger) *Loop {
	l := &Loop{
		config:  c,
		source:  source,
		kernel:  kernel,
		log:     log,
		state:   newState(c),
		refused: map[string]error{},
		ready:   make(chan struct{}),
	}
	l.resetBackoff()
	return l
}

// Ready is closed once the kernel has everything the source first wanted.
func (l *Loop) Ready() <-chan struct{} { return l.ready }

// String names the loop in logs.
func (l *Loop) String() string { return "sync loop" }

// Run works until ctx ends, which is no error, or the source fails. What is
// programmed stays.
func (l *Loop) Run(ctx context.Context) error {
	events := make(chan []Event, queued)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.source.Run(ctx, events) })
	group.Go(func() error { return l.follow(ctx, events) })
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// follow is the loop itself.
func (l *Loop) follow(ctx context.Context, events <-chan []Event) error {
	retry := time.NewTimer(lastRetry)
	retry.Stop()
	started := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case burst := <-events:
			l.state.apply(burst)
			l.drain(events)
			started = true
		case <-retry.C:
			l.rules = nil
			clear(l.refused)
		}
		if !started {
			continue
		}
		if wait := l.sync(); wait > 0 {
			retry.Reset(wait)
		} else {
			retry.Stop()
		}
	}
}

// drain takes in what else has come, so that it goes into the same batch.
func (l *Loop) drain(events <-chan []Event) {
	for {
		select {
		case burst := <-events:
			l.state.apply(burst)
		default:
			return
		}
	}
}

// sync brings the kernel up to date. It returns how long to wait before trying
// again what did not work, zero if all is well.
func (l *Loop) sync() time.Duration {
	change, conflicts := l.state.take()
	for _, c := range conflicts {
		l.log.Warn("an older Service holds the address and port",
			"match", c.Match.String(), "winner", c.Winner.String(), "loser", c.Loser.String())
	}
	for {
		err := l.apply(change)
		switch {
		case err == nil && len(l.refused) == 0:
			l.announce()
			l.resetBackoff()
			return 0
		case err == nil:
			l.announce()
			return l.backoff.Step()
		}
		l.rules = nil // whatever the kernel holds now must be read
		if !l.setAside(err) {
			l.log.Error("the kernel was not brought up to date", "err", err)
			return l.backoff.Step()
		}
	}
}

// setAside leaves out the Service port that the error is about, so that the
// others can go on. False if the error is about none, or one already left out.
func (l *Loop) setAside(err error) bool {
	var refusal *nft.Error
	if !errors.As(err, &refusal) || refusal.Service == "" || l.refused[refusal.Service] != nil {
		return false
	}
	l.refused[refusal.Service] = err
	l.log.Error("Service port is left out", "service", refusal.Service, "err", err)
	return true
}

// announce tells once that the first state stands.
func (l *Loop) announce() {
	select {
	case <-l.ready:
	default:
		close(l.ready)
	}
}

func (l *Loop) resetBackoff() {
	l.backoff = wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.1, Steps: 1 << 10, Cap: lastRetry}
}

// apply makes the change, or everything anew if it is not known what the kernel
// holds.
func (l *Loop) apply(change nft.Change) error {
	if l.rules == nil {
		return l.adopt()
	}
	plan := l.rules.Plan(l.admit(change))
	if err := l.send(plan.Batch); err != nil {
		return err
	}
	l.rules.Commit(plan)
	return nil
}

// adopt compares what the kernel holds with what it should and sends the
// difference.
func (l *Loop) adopt() error {
	have, err := l.kernel.Read()
	if err != nil {
		return fmt.Errorf("read the kernel: %w", err)
	}
	rules, batch := nft.Adopt(l.config.Rules, have, l.admit(l.state.all()))
	if err := l.send(batch); err != nil {
		return err
	}
	l.rules = rules
	return nil
}

// admit turns frontends of refused Service ports into ones that are gone.
func (l *Loop) admit(c nft.Change) nft.Change {
	if len(l.refused) == 0 {
		return c
	}
	admitted := nft.Change{Gone: c.Gone, ServiceCIDRs: c.ServiceCIDRs}
	for _, f := range c.Set {
		if l.refused[f.Service.String()] == nil {
			admitted.Set = append(admitted.Set, f)
		} else {
			admitted.Gone = append(admitted.Gone, f.Match)
		}
	}
	return admitted
}

// send applies a batch and says so, in one line.
func (l *Loop) send(b nft.Batch) error {
	if len(b) == 0 {
		l.log.Debug("nothing to change")
		return nil
	}
	l.log.Debug("batch", "commands", b)
	applied, err := l.kernel.Apply(b)
	if err != nil {
		return fmt.Errorf("apply batch: %w", err)
	}
	counts := b.Counts()
	l.log.Info("applied",
		"services", l.state.services.Len(), "batches", applied.Steps, "messages", applied.Messages,
		"bytes", applied.Bytes, "added", counts.Added, "deleted", counts.Deleted, "objects", counts.Objects,
		"took", applied.Took.Round(time.Microsecond))
	return nil
}
