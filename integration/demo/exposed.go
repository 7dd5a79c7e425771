package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"kube-vmap/model"
)

func (s *walkthrough) exposed(ctx context.Context) error {
	if err := s.expose(ctx, "Cluster"); err != nil {
		return err
	}
	if err := s.ask(ctx, "nginx", webs(nginxNodePort, nginxLoadBalancer), s.first(3)); err != nil {
		return err
	}
	return s.sourceIs(func(f model.Family) netip.Addr { return s.lab.Node.Gateway(f) })
}

func (s *walkthrough) local(ctx context.Context) error {
	if err := s.expose(ctx, "Local"); err != nil {
		return err
	}
	if err := s.sourceIs(s.lab.Outside.Addr); err != nil {
		return err
	}
	return s.health()
}

// expose makes nginx reachable from outside. Its endpoints exist already.
func (s *walkthrough) expose(ctx context.Context, policy string) error {
	u, err := s.rewrite(ctx, func() error { return s.folder.expose(policy) })
	if err != nil {
		return err
	}
	for line := range strings.Lines(u.commands) {
		if strings.HasPrefix(line, "add element ") && strings.Contains(line, " kube-vmap endpoints-") {
			return fmt.Errorf("another address of nginx added endpoints: %s", line)
		}
	}
	return nil
}

// sourceIs prints and verifies the client address that the pods see for requests of
// the host outside.
func (s *walkthrough) sourceIs(want func(model.Family) netip.Addr) error {
	for _, t := range webs(nginxNodePort, nginxLoadBalancer) {
		from := want(model.FamilyOf(t.Addr()))
		for range 10 {
			answer, err := t.ask(s.lab.Outside)
			if err != nil {
				return err
			}
			if seen := answer.Seen.Addr(); seen != from {
				return fmt.Errorf("the pod sees client address %s, want %s", seen, from)
			}
		}
		s.detail(fmt.Sprintf("%s from outside: seen as %s", t, from))
	}
	s.print("      client outside, as pods see it: %s, %s", want(model.IPv4), want(model.IPv6))
	return s.proxy.idle()
}

// health sends the health check of a load balancer.
func (s *walkthrough) health() error {
	body, err := s.lab.Outside.Get("http://"+nginxHealth.String(), timeout)
	if err != nil {
		return err
	}
	s.detail(body)
	if !strings.Contains(body, `"localEndpoints": 3`) {
		return fmt.Errorf("health check: want three local endpoints: %s", body)
	}
	return nil
}
