// Package shadow compares what kube-vmap would do with what the rules of the proxy on the
// node do, without programming anything.
//
//	Services, slices -> sync.Loop on a kernel that takes everything -> rule set in memory
//	                                                                      | ours
//	     the same simulated packets  ---------------------------------->  nft/foreign/simulate
//	                                                                      | theirs
//	kernel: rules of kube-proxy (theirs.go)      -------------------------+
//
// [compareOnce] runs one round: for every frontend that one of the two has, it sends packets of
// a pod, the node and a client outside through both, and of clients at the bounds of source
// ranges and of the Service's own endpoints. A [Difference] is about endpoints, their shares,
// masquerade, refusals or affinity. Where kube-vmap differs on purpose, the
// difference has the reason in Intended (intended.go) and does not count.
//
// kube-proxy needs some seconds for a change, so a tracker reports a difference if two rounds
// in a row have found it and the Service's data has not changed for a while. A round keeps
// nothing of the Services that it has compared.
package shadow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/sync"
	"kube-vmap/sync/source/addresses"
)

// Config configures a [Shadow].
type Config struct {
	// Loop is the loop's configuration, as the proxy would have it.
	Loop   sync.Config
	Source sync.Source
	// NodePortsDefault means that no addresses for node ports are configured.
	NodePortsDefault bool
	// Period is the least time between the beginnings of two rounds.
	Period time.Duration
	// Timeout is how long Once waits for the objects; zero means forever.
	Timeout time.Duration
	Log     *slog.Logger
}

// A Shadow follows the API as the proxy does, and compares.
type Shadow struct {
	Config
	tracker *tracker
	loop    *sync.Loop
}

// New returns a shadow that does nothing before Run or Once.
func New(c Config) *Shadow {
	s := &Shadow{Config: c, tracker: newTracker(time.Now)}
	l := c.Loop
	l.Rules.CountConnections, l.Rules.PassiveHealth = false, false // no difference for packets
	l.Rules.Protect = false
	l.Observer, l.Recorder, l.DriftReader, l.Shares = nil, nil, nil, nil
	l.Addresses = addresses.New(addresses.Config{Log: c.Log})
	l.Followers = []sync.Follower{s.tracker}
	s.loop = sync.NewLoop(l, c.Source, discardKernel{}, slog.New(warnings{c.Log.Handler()}))
	return s
}

// warnings is a handler of the loop's warnings and errors: it programs nothing, so that it is
// not "ready", and has "applied" nothing.
type warnings struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

// WithAttrs implements [slog.Handler].
func (w warnings) WithAttrs(a []slog.Attr) slog.Handler { return warnings{w.Handler.WithAttrs(a)} }

// WithGroup implements [slog.Handler].
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// A discardKernel accepts every batch and programs nothing.
type discardKernel struct{}

// Read implements [sync.Kernel].
func (discardKernel) Read() (nft.Tables, error) { return nft.Tables{}, nil }

// Apply implements [sync.Kernel].
func (discardKernel) Apply(nft.Batch) (nft.Applied, error) { return nft.Applied{Steps: 1}, nil }

// ForeignChanges implements [sync.Kernel].
func (discardKernel) ForeignChanges() (uint32, error) { return 0, nil }

// share is the inverse of the part of a processor that rounds may take.
const share = 20

// Run compares until ctx ends, which is no error, and calls a function after every round, with
// what is confirmed or why there was no comparison. A round begins as late as Period and a
// twentieth of a processor require.
func (s *Shadow) Run(ctx context.Context, onRound func(*Report, error)) error {
	return s.withLoop(ctx, 0, func(ctx context.Context) error {
		for {
			began := time.Now()
			r, err := s.round(ctx)
			if ctx.Err() == nil {
				onRound(r, err)
			}
			if !sync.Sleep(ctx, max(s.Period, share*time.Since(began))-time.Since(began)) {
				return nil
			}
		}
	})
}

// onceTries limits the rounds of Once: kube-proxy may not come to rest in a busy cluster.
const onceTries = 7

// Once compares until two rounds agree, or the API changes too fast for that. Intended differences
// are only counted, unless all is set.
func (s *Shadow) Once(ctx context.Context, all bool) (r *Report, err error) {
	err = s.withLoop(ctx, s.Timeout, func(ctx context.Context) (err error) {
		for n := 0; n < onceTries && (r == nil || r.Pending > 0); n++ {
			if n > 0 && !sync.Sleep(ctx, settled) {
				return ctx.Err()
			}
			if r, err = s.round(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err = cmp.Or(err, ctx.Err()); err == nil { // an interrupted loop has none
		r.countIntended(all)
	}
	return r, err
}

var errStopped = errors.New("stopped")

// withLoop runs the loop while a function runs, which it calls when the loop is ready; that
// must be within the timeout, unless it is zero.
func (s *Shadow) withLoop(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.loop.Run(ctx) })
	group.Go(func() error {
		var late <-chan time.Time
		if timeout > 0 {
			late = time.After(timeout)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-late:
			return fmt.Errorf("the API objects were not loaded within %s", timeout)
		case <-s.loop.Ready():
		}
		return cmp.Or(do(ctx), errStopped)
	})
	if err := group.Wait(); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

func (s *Shadow) round(ctx context.Context) (r *Report, err error) {
	began := s.tracker.now()
	in := wanted{Config: &s.Config}
	if in.Ruleset, _, err = s.loop.Ruleset(ctx); err != nil {
		return nil, err
	}
	if in.Ruleset == nil {
		return nil, errors.New("no rule set is compiled yet")
	}
	if in.State, err = s.loop.Snapshot(ctx); err != nil {
		return nil, err
	}
	interfaces, err := addresses.Read()
	if err != nil {
		return nil, fmt.Errorf("read the addresses of the node: %w", err)
	}
	for _, p := range interfaces {
		in.Addresses = append(in.Addresses, p.Addr())
	}
	rules, err := dump.Open(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rules.Close()) }()
	if r, err = compareOnce(ctx, in, rules); err != nil {
		return nil, err
	}
	s.tracker.confirm(r, began)
	return r, nil
}
