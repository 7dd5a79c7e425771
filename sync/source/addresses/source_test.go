package addresses

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errBroken = errors.New("broken")

// A script is a feed that returns lists in turn, and breaks after the last.
type script struct {
	lists  [][]netip.Prefix
	next   int
	after  time.Duration // from list to list
	err    error         // of every list
	closed bool
}

func (s *script) List() ([]netip.Prefix, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.next++
	return slices.Clone(s.lists[s.next-1]), nil
}

func (s *script) Wait(ctx context.Context) error {
	if s.next == len(s.lists) {
		return errBroken
	}
	select {
	case <-time.After(s.after):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *script) Close() { s.closed = true }

// play runs a source for so long, with these feeds in turn, and returns what it sent and
// logged. After the last feed, opening one fails.
func play(t *testing.T, feeds []*script, length time.Duration) (sent []string, opened []time.Duration, log string) {
	t.Helper()
	var b bytes.Buffer
	s := New(Config{Log: slog.New(slog.NewTextHandler(&b, nil))})
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	out := make(chan []netip.Prefix)
	start := time.Now()
	next := 0
	s.open = func() (Feed[netip.Prefix], error) {
		opened = append(opened, time.Since(start))
		if next >= len(feeds) {
			return nil, errBroken
		}
		next++
		return feeds[next-1], nil
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, out) }()
	for {
		select {
		case addrs := <-out:
			sent = append(sent, join(addrs))
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
			return sent, opened, b.String()
		}
	}
}

func join(addrs []netip.Prefix) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, " ")
}

func list(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestAddressesAreSentInitiallyAndOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := &script{after: time.Second, lists: [][]netip.Prefix{
			list(),
			list(),
			list("2001:db8::2/64", "192.0.2.9/24", "192.0.2.1/24", "192.0.2.9/24", "fe80::1/64", "fe80::1/64"),
			list("192.0.2.1/24", "192.0.2.9/24", "fe80::1/64", "2001:db8::2/64"), // the same
			list("192.0.2.1/24"),
			list("192.0.2.1/25"),
			list(),
		}}
		sent, _, _ := play(t, []*script{feed}, 6500*time.Millisecond)
		want := []string{"", "192.0.2.1/24 192.0.2.9/24 2001:db8::2/64 fe80::1/64", "192.0.2.1/24", "192.0.2.1/25", ""}
		if !slices.Equal(sent, want) {
			t.Errorf("got %q, want %q", sent, want)
		}
	})
}

func TestBrokenSocketsAreReopenedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		same := list("192.0.2.1/24", "2001:db8::1/64")
		feeds := []*script{
			{lists: [][]netip.Prefix{same}},
			{err: errors.New("no list")},
			{lists: [][]netip.Prefix{same, append(same, list("192.0.2.2/24")...)}, after: time.Minute},
		}
		sent, opened, log := play(t, feeds, time.Hour)
		if want := []string{"192.0.2.1/24 2001:db8::1/64", "192.0.2.1/24 192.0.2.2/24 2001:db8::1/64"}; !slices.Equal(sent, want) {
			t.Errorf("got %q, want %q", sent, want)
		}
		for i, f := range feeds {
			if !f.closed {
				t.Errorf("feed %d is not closed", i)
			}
		}
		var pauses []time.Duration
		for i := range opened[1:] {
			pauses = append(pauses, opened[i+1]-opened[i])
		}
		ms := time.Millisecond
		want := []time.Duration{100 * ms, 200 * ms, time.Minute + 100*ms, 200 * ms, 400 * ms, 800 * ms}
		if !slices.Equal(pauses[:len(want)], want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
		if last := pauses[len(pauses)-1]; last != maxBackoff {
			t.Errorf("last pause %s", last)
		}
		for _, text := range []string{"level=WARN", "err=broken retry_in=100ms", `err="no list" retry_in=200ms`} {
			if !strings.Contains(log, text) {
				t.Errorf("%s is not in the log:\n%s", text, log)
			}
		}
	})
}

func TestRunEndsWhileReceiverIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Log: slog.New(slog.DiscardHandler)})
		sockets := &script{lists: [][]netip.Prefix{list("192.0.2.1/24")}}
		s.open = func() (Feed[netip.Prefix], error) { return sockets, nil }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if err := s.Run(ctx, make(chan []netip.Prefix)); err != nil {
			t.Error(err)
		}
		if !sockets.closed {
			t.Error("the sockets are not closed")
		}
	})
}
