package addresses

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// After a failure, the sockets are made again: soon at first, then ever less
// often.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// Source tells the addresses of the interfaces of one network namespace.
type Source struct {
	log  *slog.Logger
	open func() (feed, error)
}

// Config says where to look and where to complain.
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// thread that calls [Source.Run].
	NetNS int
	Log   *slog.Logger
}

// New makes a Source. It opens nothing yet.
func New(c Config) *Source {
	return &Source{log: c.Log, open: func() (feed, error) { return openKernel(c.NetNS) }}
}

// feed is where addresses are listed, and changes of them noticed from the
// moment it is there.
type feed interface {
	// list returns all addresses that count, in any order.
	list() ([]netip.Addr, error)
	// wait returns after a change, once there were no more for a moment; with an
	// error if ctx ends first.
	wait(ctx context.Context) error
	close()
}

// Run sends all addresses at once, sorted and each once, and again whenever they
// change, until ctx ends, which is no error. What keeps it from knowing them is
// logged, and tried again; until then, what was sent last stands.
func (s *Source) Run(ctx context.Context, out chan<- []netip.Addr) error {
	t := &sender{out: out}
	for delay := minBackoff; ctx.Err() == nil; delay = min(2*delay, maxBackoff) {
		start := time.Now()
		err := s.follow(ctx, t)
		if time.Since(start) > maxBackoff { // it worked
			delay = minBackoff
		}
		s.pause(ctx, err, delay)
	}
	return nil
}

// pause tells what broke and lets some time pass, unless ctx has ended.
func (s *Source) pause(ctx context.Context, err error, length time.Duration) {
	if ctx.Err() != nil {
		return
	}
	s.log.Warn("lost sight of the node's addresses; trying again", "err", err, "in", length)
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}

// follow tells the addresses for as long as one feed works.
func (s *Source) follow(ctx context.Context, t *sender) error {
	f, err := s.open()
	if err != nil {
		return err
	}
	defer f.close()
	for {
		addrs, err := f.list()
		if err != nil {
			return err
		}
		t.sendIfChanged(ctx, addrs)
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// sender is what has been told to whom.
type sender struct {
	out      chan<- []netip.Addr
	sentOnce bool
	last     []netip.Addr
}

// sendIfChanged sends the addresses unless they are those that were sent last, or ctx
// ends first.
func (t *sender) sendIfChanged(ctx context.Context, addrs []netip.Addr) {
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	if t.sentOnce && slices.Equal(addrs, t.last) {
		return
	}
	select {
	case t.out <- addrs:
		t.sentOnce, t.last = true, addrs
	case <-ctx.Done():
	}
}
