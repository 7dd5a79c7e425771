// Package addresses follows the addresses of the node's interfaces: node ports are served
// on added addresses immediately, and no longer on removed ones.
//
//	kernel --RTM_NEWADDR, RTM_DELADDR--> wait until quiet --> list all --> changed? --> out
//	                                          ^                              |
//	                                          +------------------------------+
//
// See package rtnetlink for why no change is lost.
//
// An address is used, on whichever interface, if the node answers to it:
//
//   - It is not a loopback address (127.0.0.0/8, ::1), which only the node itself can
//     reach. Other addresses of the interface lo are used.
//   - It is not tentative or a duplicate (RFC 4862 5.4): the kernel does not answer to
//     those and does not let programs bind to them. A notification arrives when one is
//     found to be unique. Optimistic addresses (RFC 4429) are used immediately.
//   - Deprecated addresses (RFC 4862 5.5.4) are used until they are removed: new
//     connections to them are still accepted.
package addresses

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"kube-vmap/nft/kernel/rtnetlink"
	"kube-vmap/sync"
)

// The first and the longest delay after a failure. The latter is also how long a feed must work for
// the delays to be short again.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 30 * time.Second
)

// A Source sends the addresses of the interfaces of one network namespace.
type Source struct {
	log  *slog.Logger
	open func() (Feed[netip.Prefix], error)
}

// Config configures a [Source].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means the namespace of the
	// thread that calls [Source.Run].
	NetNS int
	Log   *slog.Logger
}

// New returns a Source. It opens nothing yet.
func New(c Config) *Source {
	return &Source{log: c.Log, open: func() (Feed[netip.Prefix], error) { return rtnetlink.FollowAddresses(c.NetNS) }}
}

// Run sends all addresses, as in [sync.AddressSource], and again whenever they
// change, until ctx ends, which is not an error. It logs and retries failures; meanwhile
// the addresses sent last stay valid.
func (s *Source) Run(ctx context.Context, out chan<- []netip.Prefix) error {
	sent, last := false, []netip.Prefix(nil)
	Follow(ctx, s.log.With("kind", "addresses"), s.open, func(addrs []netip.Prefix) {
		slices.SortFunc(addrs, netip.Prefix.Compare)
		addrs = slices.Compact(addrs)
		if (!sent || !slices.Equal(addrs, last)) && sync.Send(ctx, out, addrs) {
			sent, last = true, addrs
		}
	})
	return nil
}

// Read returns the addresses of the thread's network namespace that a [Source] would send first.
func Read() ([]netip.Prefix, error) {
	feed, err := rtnetlink.FollowAddresses(0)
	if err != nil {
		return nil, err
	}
	defer feed.Close()
	list, err := feed.List()
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list), err
}

// A Feed lists the kernel's objects of a kind, and notices all changes since it was
// opened.
type Feed[T any] interface {
	// List returns all, in any order.
	List() ([]T, error)
	// Wait returns after a change, once there were no more for a moment, or with an
	// error if ctx ends first.
	Wait(ctx context.Context) error
	Close()
}

// Follow calls send with the list of a feed, and again after changes, until ctx ends. It
// logs failures, and opens another feed after a while.
func Follow[T any](ctx context.Context, log *slog.Logger, open func() (Feed[T], error), send func([]T)) {
	for delay := sync.NewBackoff(minBackoff, maxBackoff, 0); ctx.Err() == nil; {
		start := time.Now()
		err := follow(ctx, open, send)
		if time.Since(start) > maxBackoff { // it worked
			delay = sync.NewBackoff(minBackoff, maxBackoff, 0)
		}
		if ctx.Err() != nil {
			return
		}
		length := delay.Step()
		log.Warn("network of the node not readable, retrying", "err", err, "retry_in", length)
		sync.Sleep(ctx, length)
	}
}

// follow sends until a feed fails or ctx ends.
func follow[T any](ctx context.Context, open func() (Feed[T], error), send func([]T)) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		list, err := f.List()
		if err != nil {
			return err
		}
		send(list)
		if err := f.Wait(ctx); err != nil {
			return err
		}
	}
}
