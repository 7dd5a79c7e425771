package addresses

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-vmap/nft/kernel/rtnetlink"
)

// maxBackoff is the longest delay after a failure, and how long a feed must work for the
// delays to be short again.
const maxBackoff = 30 * time.Second

func backoff() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 1 << 10, Cap: maxBackoff}
}

// A Source sends the addresses of the interfaces of one network namespace.
type Source struct {
	log  *slog.Logger
	open func() (feed, error)
}

// Config configures a [Source].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the thread
	// that calls [Source.Run].
	NetNS int
	Log   *slog.Logger
}

// New returns a Source. It opens nothing yet.
func New(c Config) *Source {
	return &Source{log: c.Log, open: func() (feed, error) { return rtnetlink.FollowAddresses(c.NetNS) }}
}

// A feed lists addresses, and notices all changes since it was opened.
type feed interface {
	// List returns all usable addresses in any order.
	List() ([]netip.Addr, error)
	// Wait returns after a change, once there were no more for a moment, or with an
	// error if ctx ends first.
	Wait(ctx context.Context) error
	Close()
}

// Run sends all addresses, sorted and without duplicates, and again whenever they
// change, until ctx ends, which is not an error. It logs and retries failures; meanwhile
// the addresses sent last stay valid.
func (s *Source) Run(ctx context.Context, out chan<- []netip.Addr) error {
	t := &sender{out: out}
	for delay := backoff(); ctx.Err() == nil; {
		start := time.Now()
		err := s.follow(ctx, t)
		if time.Since(start) > maxBackoff { // it worked
			delay = backoff()
		}
		s.pause(ctx, err, delay.Step())
	}
	return nil
}

// pause logs a failure and waits, unless ctx has ended.
func (s *Source) pause(ctx context.Context, err error, length time.Duration) {
	if ctx.Err() != nil {
		return
	}
	s.log.Warn("node addresses not readable, retrying", "err", err, "retry_in", length)
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}

// follow sends the addresses until a feed fails or ctx ends.
func (s *Source) follow(ctx context.Context, t *sender) error {
	f, err := s.open()
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		addrs, err := f.List()
		if err != nil {
			return err
		}
		t.sendIfChanged(ctx, addrs)
		if err := f.Wait(ctx); err != nil {
			return err
		}
	}
}

// A sender sends addresses that differ from those that it sent last.
type sender struct {
	out      chan<- []netip.Addr
	sentOnce bool
	last     []netip.Addr
}

// sendIfChanged sends the addresses, unless they are the last ones or ctx ends first.
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
