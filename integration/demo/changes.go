package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kube-vmap/integration/lab"
)

func (s *story) podGoes(ctx context.Context) error {
	s.say("   pod-2 is no longer an endpoint of nginx:")
	if _, err := s.change(ctx, s.pods[0], s.pods[2]); err != nil {
		return err
	}
	s.say("   With two endpoints nginx now leads to cluster-2, as dns does. pod-1 keeps slot 0, pod-3 moves up.")
	s.say("   Nobody has three endpoints any more; what was for that goes, too.")
	s.say("")
	return s.settled(ctx, s.pods[0], s.pods[2])
}

func (s *story) podComes(ctx context.Context) error {
	s.say("   pod-4 becomes an endpoint:")
	if _, err := s.change(ctx, s.pods[0], s.pods[2], s.pods[3]); err != nil {
		return err
	}
	s.say("   The chains for three endpoints are back, for all Services that will ever have three.")
	s.say("")
	return s.settled(ctx, s.pods[0], s.pods[2], s.pods[3])
}

func (s *story) podReplaced(ctx context.Context) error {
	s.say("   pod-2 takes the place of pod-4, as in a rolling update:")
	u, err := s.change(ctx, s.pods[0], s.pods[1], s.pods[2])
	if err != nil {
		return err
	}
	if n := u.line.fields["objects"]; n != "0" {
		return fmt.Errorf("a replaced endpoint changed %s chains, rules and maps", n)
	}
	s.say("   No chain, no rule: elements of maps of addresses. It would be the same among 10,000 Services.")
	s.say("")
	return s.settled(ctx, s.pods[0], s.pods[1], s.pods[2])
}

func (s *story) zero(ctx context.Context) error {
	s.say("   nginx has no endpoints at all:")
	if _, err := s.change(ctx); err != nil {
		return err
	}
	s.say("   Clients are told so at once and need not wait for a time-out:")
	s.say("")
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
		s.say("   %s", row(t.name, s.clients, func(i int) string { return "from " + s.clients[i].title }))
		s.say("   %s", row("  connection refused after", s.clients, func(i int) string { return took[i] }))
	}
	return s.proxy.quiet()
}

func (s *story) back(ctx context.Context) error {
	s.say("   nginx has its three endpoints again:")
	if _, err := s.change(ctx, s.first(3)...); err != nil {
		return err
	}
	s.say("")
	return s.settled(ctx, s.first(3)...)
}

// change makes these pods the endpoints of nginx and shows what kube-vmap sent.
func (s *story) change(ctx context.Context, pods ...*lab.Pod) (update, error) {
	u, err := s.rewrite(ctx, endpointsFile, func() error { return s.folder.setEndpoints(pods) })
	if err != nil {
		return u, err
	}
	s.say("   That is, as nft commands and for IPv4 (IPv6 is in the same batch):")
	s.quote(u.ipv4())
	return u, nil
}

// rewrite has a file written anew, which is renamed into place, and shows what
// kube-vmap logs. That must be one batch.
func (s *story) rewrite(ctx context.Context, file string, write func() error) (update, error) {
	start := time.Now()
	if err := write(); err != nil {
		return update{}, err
	}
	u, err := s.proxy.await(ctx, applied)
	if err != nil {
		return u, err
	}
	s.say("   $ mv %s.new %s", file, file)
	s.say("   %d ms later, 50 of which kube-vmap waits for more files to change, its log says:", time.Since(start).Milliseconds())
	s.quote(u.line.plain())
	return u, u.oneBatch()
}

// settled asks nginx from everywhere, after a change that must have been all.
func (s *story) settled(ctx context.Context, pods ...*lab.Pod) error {
	if err := s.askNginx(ctx, pods); err != nil {
		return err
	}
	return s.proxy.quiet()
}

// oneBatch says whether the update was one batch, no more and no less.
func (u update) oneBatch() error {
	if n := u.line.fields["batches"]; n != "1" {
		return fmt.Errorf("expected one batch: %s", u.line.plain())
	}
	return nil
}

// ipv4 are the commands for the table of IPv4.
func (u update) ipv4() string {
	var text strings.Builder
	for line := range strings.Lines(u.commands) {
		if strings.Contains(line, " ip kube-vmap ") {
			text.WriteString(line)
		}
	}
	return text.String()
}
