// Package fastpath keeps the table of the fast path ([flowtable]) in the kernel, if it may be
// there:
//
//	interfaces of the node --changes--+--> may it be on? --no--> table removed, with a reason
//	every 10 seconds -----------------+          |
//	                                            yes --> missing table or devices added
//
// It must not run alongside the flowtable of another program, nor alongside a program whose
// rules have to see every packet, since packets in a flowtable pass no rules. Both may
// appear at any time, so this is checked again and again.
//
// Flows need no care: a connection in the flowtable is an entry of connection tracking as
// before, and the kernel no longer finds it in the flowtable once the entry is deleted
// (flow_offload_lookup, nf_ct_is_dying). Package flows does that for UDP to removed endpoints.
package fastpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/nft/kernel/rtnetlink"
	"kube-vmap/sync"
	"kube-vmap/sync/source/addresses"
)

// DefaultAfter is how many packets a connection passes before it takes the fast path.
const DefaultAfter = 20

// searchPeriod is the time between two searches for obstacles, which read the tables and processes
// of the node.
const searchPeriod = 10 * time.Second

// Config configures a [FastPath].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means the namespace of the
	// thread that calls [FastPath.Run].
	NetNS int
	// After is how many packets a connection passes before it takes the fast path.
	After uint64
	// Obstacle returns why it must be off, or "". It is called on Run's goroutine.
	Obstacle func() string
	// CountCommit is called after each of our transactions, which are not foreign changes
	// ([kernel.Kernel.CountCommit]).
	CountCommit func()
	Log         *slog.Logger
}

// State says whether the fast path is on.
type State struct {
	On bool
	// Reason is why it is off; empty before the first search for obstacles.
	Reason string
	// Devices is the number of interfaces.
	Devices int
}

// A FastPath keeps the table of the fast path.
type FastPath struct {
	config Config
	state  atomic.Pointer[State]
	never  chan string // why it must be off permanently
	// The others belong to Run's goroutine.
	table   *flowtable.Table  // nil while it is off
	refused flowtable.Refused // of the interfaces that exist
	devices []string          // all interfaces
	found   string            // the obstacle that the last search found
}

// New returns a FastPath; it does nothing before Run.
func New(c Config) *FastPath {
	f := &FastPath{config: c, never: make(chan string, 1)}
	f.state.Store(&State{})
	return f
}

// State returns whether the fast path is on.
func (f *FastPath) State() State { return *f.state.Load() }

// Disable removes the table, and keeps it away as long as the process runs.
func (f *FastPath) Disable(reason string) {
	select {
	case f.never <- reason:
	default:
	}
}

// Run keeps the table until ctx ends, which does not count as an error, and then removes
// it.
func (f *FastPath) Run(ctx context.Context) error {
	lists := make(chan []string)
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		open := func() (addresses.Feed[string], error) { return rtnetlink.FollowInterfaces(f.config.NetNS) }
		addresses.Follow(ctx, f.config.Log.With("kind", "interfaces"), open, func(list []string) {
			sync.Send(ctx, lists, list)
		})
	}()
	defer func() { stop(); <-done }()
	search := time.NewTicker(searchPeriod)
	defer search.Stop()
	for {
		select {
		case <-ctx.Done():
			// The process may stay, if the node was rolled back to kube-proxy.
			f.state.Store(&State{Reason: "kube-vmap no longer does anything on this node"})
			return f.remove()
		case reason := <-f.never:
			f.config.Obstacle = func() string { return reason }
			f.reconcile(true)
		case list := <-lists:
			f.setDevices(list)
		case <-search.C:
			if f.devices != nil {
				f.reconcile(true)
			}
		}
	}
}

// setDevices adds new interfaces immediately. Names of interfaces are signs of other programs,
// too, but pods start all the time, so it does not search for obstacles immediately.
func (f *FastPath) setDevices(list []string) {
	first := f.devices == nil
	f.devices = list
	// Also if the names are the same: a new interface may have the name of a removed one.
	f.reconcile(first)
}

func (f *FastPath) remove() error {
	if f.table == nil {
		return nil
	}
	t := f.table
	f.table, f.refused = nil, nil
	return t.Close()
}

// reconcile brings the kernel's table to the desired state, after a search for obstacles if
// search is set.
func (f *FastPath) reconcile(search bool) {
	if search {
		f.found = f.config.Obstacle()
	}
	s, err := f.apply()
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

func (f *FastPath) apply() (State, error) {
	all, err := flowtable.List(f.config.NetNS)
	if err != nil {
		return State{}, errors.Join(err, f.remove())
	}
	if reason := cmp.Or(flowtable.Foreign(all), f.found); reason != "" {
		return State{Reason: reason}, f.remove()
	}
	if len(f.devices) == 0 {
		return State{Reason: "the node has no interfaces"}, f.remove()
	}
	if f.table == nil {
		err = f.add()
	} else {
		err = f.addMissing(all)
	}
	return State{On: true, Devices: len(f.devices) - len(f.refused)}, err
}

func (f *FastPath) add() error {
	t, refused, err := flowtable.Add(f.config.NetNS, f.devices, f.config.After)
	switch {
	case flowtable.IsUnsupported(err):
		return fmt.Errorf("the kernel refuses a flowtable, which needs the modules nf_flow_table, nf_flow_table_inet and "+
			"nft_flow_offload: %w", err)
	case err != nil:
		return err
	}
	f.table = t
	f.config.CountCommit()
	f.refuse(refused)
	return nil
}

// addMissing adds the interfaces that the kernel's flowtable does not have. If that fails the
// table is added again with the next search.
func (f *FastPath) addMissing(all []flowtable.Flowtable) error {
	if f.table.HasEveryDevice() {
		return nil
	}
	var has []string
	if i := slices.IndexFunc(all, func(t flowtable.Flowtable) bool { return t.IsOurs() }); i >= 0 {
		has = all[i].Devices
	}
	missing := slices.DeleteFunc(slices.Clone(f.devices), func(name string) bool {
		_, there := slices.BinarySearch(has, name)
		return there
	})
	refused, err := f.table.AddDevices(missing)
	if err != nil {
		return errors.Join(err, f.remove())
	}
	if len(missing) > len(refused) {
		f.config.CountCommit()
	}
	f.refuse(refused)
	return nil
}

// refuse notes which interfaces the kernel refuses, and logs those that it did not refuse
// before. A removed one is not logged: it has a notification.
func (f *FastPath) refuse(refused flowtable.Refused) {
	for name, err := range refused {
		if f.refused[name] == nil && !errors.Is(err, fs.ErrNotExist) {
			f.config.Log.Warn("an interface stays off the fast path", "interface", name, "err", err)
		}
	}
	f.refused = refused
}
