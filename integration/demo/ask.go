package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	// requests is the number of requests of each client to each target: so many that
	// chance does not exceed the bounds of tally.check.
	requests = 240
	// workers is the number of concurrent requests.
	workers = 4
	// timeout is for requests that must be answered, and for the log of kube-vmap.
	timeout = time.Minute
)

// client is a host that sends requests.
type client struct {
	title string
	host  *lab.Host
}

// target is an address of a Service.
type target struct {
	protocol model.Protocol
	netip.AddrPort
}

// String returns, for example, "tcp 10.96.0.10:53".
func (t target) String() string { return t.protocol.String() + " " + t.AddrPort.String() }

// ask sends a request, which must be answered.
func (t target) ask(from *lab.Host) (lab.Answer, error) {
	answer, err := from.Ask(t.protocol, t.AddrPort, timeout)
	if err == nil && answer.Outcome != lab.Answered {
		err = errors.New(answer.String())
	}
	return answer, err
}

// tally is the number of answers by pod.
type tally map[string]int

// String returns the answers, sorted by pod.
func (t tally) String() string {
	var parts []string
	for _, by := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%s %d", by, t[by]))
	}
	return strings.Join(parts, ", ")
}

// count sends all requests, each over a new connection. A request without an answer
// is an error.
func (t target) count(ctx context.Context, from client) (tally, error) {
	parts := make([]tally, workers)
	group, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		parts[i] = tally{}
		group.Go(func() error {
			for range requests / workers {
				answer, err := t.ask(from.host)
				if err = errors.Join(ctx.Err(), err); err != nil {
					return err
				}
				parts[i][answer.By]++
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("request to %s from %s: %w", t, from.title, err)
	}
	total := tally{}
	for _, part := range parts {
		for by, n := range part {
			total[by] += n
		}
	}
	return total, nil
}

// check returns an error unless exactly these pods answered, about equally often.
func (t tally) check(pods []string) error {
	for by, n := range t {
		if !slices.Contains(pods, by) {
			return fmt.Errorf("%d answers by %q, which is no endpoint", n, by)
		}
	}
	share := requests / len(pods)
	for _, pod := range pods {
		if n := t[pod]; n < share/3 || n > share*3 {
			return fmt.Errorf("%d answers by %s, expected about %d", n, pod, share)
		}
	}
	return nil
}

// refusal sends one request and returns how long it took to be refused. Any other
// outcome is an error.
func (t target) refusal(from client) (time.Duration, error) {
	answer, err := from.host.Ask(t.protocol, t.AddrPort, timeout)
	if err == nil && answer.Outcome != lab.Refused {
		err = fmt.Errorf("%s, want connection refused", answer)
	}
	if err != nil {
		return 0, fmt.Errorf("request to %s from %s: %w", t, from.title, err)
	}
	return answer.Took, nil
}
