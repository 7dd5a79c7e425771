package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kube-vmap/integration/lab"
)

func (s *walkthrough) endpointRemoved(ctx context.Context) error {
	s.print("   pod-2 is no longer an endpoint of nginx:")
	if _, err := s.change(ctx, s.pods[0], s.pods[2]); err != nil {
		return err
	}
	s.print("   With two endpoints, packets to nginx go to cluster-2, like those to dns. pod-1 keeps slot 0, pod-3 moves to slot 1.")
	s.print("   No Service has three endpoints any more, so the chains for that are removed.")
	s.print("")
	return s.verify(ctx, s.pods[0], s.pods[2])
}

func (s *walkthrough) endpointAdded(ctx context.Context) error {
	s.print("   pod-4 becomes an endpoint:")
	if _, err := s.change(ctx, s.pods[0], s.pods[2], s.pods[3]); err != nil {
		return err
	}
	s.print("   The chains for three endpoints are back. All Services with three endpoints will share them.")
	s.print("")
	return s.verify(ctx, s.pods[0], s.pods[2], s.pods[3])
}

func (s *walkthrough) endpointReplaced(ctx context.Context) error {
	s.print("   pod-2 replaces pod-4, as in a rolling update:")
	u, err := s.change(ctx, s.pods[0], s.pods[1], s.pods[2])
	if err != nil {
		return err
	}
	if n := u.Entry["objects"]; n != "0" {
		return fmt.Errorf("a replaced endpoint changed %s chains, rules and maps", n)
	}
	s.print("   Only map elements change, no chain and no rule. With 10,000 Services it would be the same elements.")
	s.print("")
	return s.verify(ctx, s.pods[0], s.pods[1], s.pods[2])
}

func (s *walkthrough) scaledToZero(ctx context.Context) error {
	s.print("   nginx has no endpoints:")
	if _, err := s.change(ctx); err != nil {
		return err
	}
	s.print("   Connections are refused immediately. Clients do not wait for a timeout:")
	s.print("")
	for _, at := range nginx {
		t := web(at)
		took := make([]string, len(s.clients))
		for i, c := range s.clients {
			d, err := t.refusal(c)
			if err != nil {
				return err
			}
			took[i] = fmt.Sprintf("%.2f ms", d.Seconds()*1000)
		}
		s.print("   %s", row(t.name, s.clients, func(i int) string { return "from " + s.clients[i].title }))
		s.print("   %s", row("  connection refused after", s.clients, func(i int) string { return took[i] }))
	}
	return s.proxy.idle()
}

func (s *walkthrough) scaledUp(ctx context.Context) error {
	s.print("   nginx has three endpoints again:")
	if _, err := s.change(ctx, s.first(3)...); err != nil {
		return err
	}
	s.print("")
	return s.verify(ctx, s.first(3)...)
}

// change makes these pods the endpoints of nginx and prints what kube-vmap sent.
func (s *walkthrough) change(ctx context.Context, pods ...*lab.Pod) (update, error) {
	u, err := s.rewrite(ctx, endpointsFile, func() error { return s.folder.setEndpoints(pods) })
	if err != nil {
		return u, err
	}
	s.print("   The batch as nft commands, only for IPv4 (it has the same for IPv6):")
	s.quote(u.ipv4())
	return u, nil
}

// rewrite replaces a file and prints what kube-vmap logs. It must send one batch.
func (s *walkthrough) rewrite(ctx context.Context, file string, write func() error) (update, error) {
	start := time.Now()
	if err := write(); err != nil {
		return update{}, err
	}
	u, err := s.proxy.await(ctx, applied)
	if err != nil {
		return u, err
	}
	s.print("   $ mv %s.new %s", file, file)
	s.print("   kube-vmap logs, %d ms later (it waits 50 ms for changes of other files):", time.Since(start).Milliseconds())
	s.quote(u.line)
	return u, u.oneBatch()
}

// verify sends requests to nginx from all clients. No further batch may follow.
func (s *walkthrough) verify(ctx context.Context, pods ...*lab.Pod) error {
	if err := s.askNginx(ctx, pods); err != nil {
		return err
	}
	return s.proxy.idle()
}

// oneBatch returns an error unless the update was one batch.
func (u update) oneBatch() error {
	if n := u.Entry["batches"]; n != "1" {
		return fmt.Errorf("expected one batch: %s", u.line)
	}
	return nil
}

// ipv4 returns the commands for the table of IPv4.
func (u update) ipv4() string {
	var text strings.Builder
	for line := range strings.Lines(u.commands) {
		if strings.Contains(line, " ip kube-vmap ") {
			text.WriteString(line)
		}
	}
	return text.String()
}
