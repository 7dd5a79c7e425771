package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// questions is how many each client asks each target: so many that the bounds
	// of tally.check are never met by chance.
	questions = 240
	// workers ask at the same time.
	workers = 4
	// patience is for what must come.
	patience = 10 * time.Second
	// soon is what a refusal must come within. A time-out takes seconds.
	soon = time.Second
)

// client is a host that asks.
type client struct {
	title string
	host  *lab.Host
}

// target is an address of a Service and the way to ask there.
type target struct {
	name string
	ask  func(from *lab.Host) (by string, err error)
}

// web is a target that speaks HTTP.
func web(at netip.AddrPort) target {
	url := "http://" + at.String()
	return target{url, func(from *lab.Host) (string, error) {
		body, err := from.Get(url, patience)
		return strings.TrimPrefix(strings.TrimSpace(body), "Hi from "), err
	}}
}

// datagram is a target that answers over UDP.
func datagram(at netip.AddrPort) target {
	return target{"udp " + at.String(), func(from *lab.Host) (string, error) {
		answer, err := from.Ask(model.UDP, at, patience)
		if err == nil && answer.Outcome != lab.Answered {
			err = errors.New(answer.String())
		}
		return answer.By, err
	}}
}

// tally counts answers by who gave them.
type tally map[string]int

// count asks all questions, each over a connection of its own. One that is not
// answered is an error.
func (t target) count(ctx context.Context, from client) (tally, error) {
	parts := make([]tally, workers)
	group, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		parts[i] = tally{}
		group.Go(func() error {
			for range questions / workers {
				by, err := t.ask(from.host)
				if err = errors.Join(ctx.Err(), err); err != nil {
					return err
				}
				parts[i][by]++
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("ask %s from %s: %w", t.name, from.title, err)
	}
	total := tally{}
	for _, part := range parts {
		for by, n := range part {
			total[by] += n
		}
	}
	return total, nil
}

// check says whether all of these pods answered, about equally often, and nobody
// else did.
func (t tally) check(pods []string) error {
	for by, n := range t {
		if !slices.Contains(pods, by) {
			return fmt.Errorf("%d answers by %q, which is no endpoint", n, by)
		}
	}
	share := questions / len(pods)
	for _, pod := range pods {
		if n := t[pod]; n < share/3 || n > share*3 {
			return fmt.Errorf("%d answers by %s, expected about %d", n, pod, share)
		}
	}
	return nil
}

// refusal asks once and returns how long it took to be refused. Anything but
// that, or waiting for it, is an error.
func (t target) refusal(from client) (time.Duration, error) {
	start := time.Now()
	by, err := t.ask(from.host)
	took := time.Since(start)
	switch {
	case err == nil:
		return 0, fmt.Errorf("ask %s from %s: answered by %q, expected to be refused", t.name, from.title, by)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return 0, fmt.Errorf("ask %s from %s: expected to be refused: %w", t.name, from.title, err)
	case took > soon:
		return 0, fmt.Errorf("ask %s from %s: refused only after %s", t.name, from.title, took)
	}
	return took, nil
}
