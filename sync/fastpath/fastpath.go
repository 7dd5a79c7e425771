package fastpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"kube-vmap/nft/kernel/flowtable"
)

// DefaultAfter is the number of packets after which a connection takes the fast path.
const DefaultAfter = 20

const (
	// defaultCheckPeriod is the time between two looks for other programs and at the table.
	defaultCheckPeriod = 10 * time.Second
	// retryPeriod is the time after which interfaces are followed again after an error.
	retryPeriod = time.Second
)

// Config configures a [FastPath].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the thread that
	// calls [FastPath.Run].
	NetNS int
	// After is the number of packets after which a connection takes the fast path.
	After uint64
	// Obstacle returns why it must be off, or an empty text. It is called on Run's goroutine.
	Obstacle func() string
	// CheckPeriod is the time between two looks for obstacles; zero means ten seconds.
	CheckPeriod time.Duration
	Log         *slog.Logger
}

// State says whether the fast path is on.
type State struct {
	On bool
	// Reason is why it is off; empty before the first look.
	Reason string
	// Devices is the number of interfaces.
	Devices int
}

// A FastPath keeps the table of the fast path.
type FastPath struct {
	config Config
	state  atomic.Pointer[State]
}

// New returns a FastPath; it does nothing before Run.
func New(c Config) *FastPath {
	if c.CheckPeriod == 0 {
		c.CheckPeriod = defaultCheckPeriod
	}
	f := &FastPath{config: c}
	f.state.Store(&State{})
	return f
}

// State returns whether the fast path is on.
func (f *FastPath) State() State { return *f.state.Load() }

// Run keeps the table until ctx ends, which is no error, and removes it then.
func (f *FastPath) Run(ctx context.Context) error {
	lists := make(chan []string)
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); f.follow(ctx, lists) }()
	defer func() { stop(); <-done }()
	check := time.NewTicker(f.config.CheckPeriod)
	defer check.Stop()
	var devices []string
	for {
		select {
		case <-ctx.Done():
			return f.end()
		case devices = <-lists:
		case <-check.C:
		}
		f.reconcile(devices)
	}
}

// end removes the table: without this process, nothing would look for other programs.
func (f *FastPath) end() error {
	f.state.Store(&State{Reason: "the process ends"})
	return flowtable.Remove(f.config.NetNS)
}

// reconcile makes the kernel's table what it has to be.
func (f *FastPath) reconcile(devices []string) {
	s, err := f.apply(devices)
	if err != nil {
		s = State{Reason: err.Error()}
	}
	before := f.State()
	f.state.Store(&s)
	switch {
	case s.On && !before.On:
		f.config.Log.Info("the fast path is on", "after_packets", f.config.After, "interfaces", s.Devices)
	case !s.On && (before.On || s.Reason != before.Reason):
		f.config.Log.Warn("the fast path is off", "reason", s.Reason)
	}
}

// apply returns the new state.
func (f *FastPath) apply(devices []string) (State, error) {
	all, err := flowtable.List(f.config.NetNS)
	if err != nil {
		return State{}, err
	}
	i := slices.IndexFunc(all, func(t flowtable.Flowtable) bool { return t.IsOurs() })
	if reason := f.obstacle(all); reason != "" {
		if i < 0 {
			return State{Reason: reason}, nil
		}
		return State{Reason: reason}, flowtable.Remove(f.config.NetNS)
	}
	on := State{On: true, Devices: len(devices)}
	switch {
	case len(devices) == 0:
		return State{Reason: "the node has no interfaces"}, nil
	case i < 0:
		return on, f.explain(flowtable.Replace(f.config.NetNS, devices, f.config.After))
	}
	missing := slices.DeleteFunc(slices.Clone(devices), func(name string) bool {
		_, there := slices.BinarySearch(all[i].Devices, name)
		return there
	})
	if len(missing) == 0 {
		return on, nil
	}
	if err := flowtable.AddDevices(f.config.NetNS, missing); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.config.Log.Warn("interfaces stay off the fast path", "err", err)
	} // one that is gone was removed since, of which there is another notification
	return on, nil
}

// obstacle returns why the fast path must be off, or an empty text.
func (f *FastPath) obstacle(all []flowtable.Flowtable) string {
	if other := flowtable.Foreign(all); other != "" {
		return other
	}
	if f.config.Obstacle == nil {
		return ""
	}
	return f.config.Obstacle()
}

// explain adds to the error of a kernel without flowtables what it lacks.
func (f *FastPath) explain(err error) error {
	if err != nil && flowtable.IsUnsupported(err) {
		return fmt.Errorf("the kernel refuses a flowtable, which needs the modules nf_flow_table, nf_flow_table_inet and nft_flow_offload: %w", err)
	}
	return err
}

// follow sends the node's interfaces, and again after changes, until ctx ends.
func (f *FastPath) follow(ctx context.Context, lists chan<- []string) {
	for ctx.Err() == nil {
		err := f.followOnce(ctx, lists)
		if ctx.Err() != nil {
			return
		}
		f.config.Log.Warn("interfaces cannot be followed, retrying", "err", err, "retry_in", retryPeriod)
		select {
		case <-ctx.Done():
		case <-time.After(retryPeriod):
		}
	}
}

func (f *FastPath) followOnce(ctx context.Context, lists chan<- []string) error {
	devices, err := flowtable.OpenDevices(f.config.NetNS)
	if err != nil {
		return err
	}
	defer devices.Close()
	for {
		list, err := devices.List()
		if err != nil {
			return err
		}
		select {
		case lists <- list:
		case <-ctx.Done():
			return nil
		}
		if err := devices.Wait(ctx); err != nil {
			return err
		}
	}
}
