package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// walkthrough is the environment with the output.
type walkthrough struct {
	*environment
	*output
}

// sections are the sections of the demo, in order. Each does what it prints, and
// fails if the result differs.
var sections = []struct {
	title string
	run   func(*walkthrough, context.Context) error
}{
	{"kube-vmap starts, with two Services: nginx on pod-1 to pod-3, and dns on pod-1 and pod-2", (*walkthrough).firstStart},
	{"pod-2 is no longer an endpoint of nginx", changeTo(0, 2)},
	{"pod-4 becomes an endpoint of nginx", changeTo(0, 2, 3)},
	{"pod-2 replaces pod-4, as in a rolling update: elements of maps change, no chain and no rule", (*walkthrough).endpointReplaced},
	{"nginx has no endpoints: clients do not wait for a timeout", (*walkthrough).scaledToZero},
	{"nginx has three endpoints again", changeTo(0, 1, 2)},
	{"nginx becomes a LoadBalancer, with a node port: its pods see the address of the node", (*walkthrough).exposed},
	{"externalTrafficPolicy: Local: its pods see the address of the client", (*walkthrough).local},
	{"Another program runs nft flush ruleset", (*walkthrough).flushed},
	{"kube-vmap is killed: packets do not pass through the process", (*walkthrough).killed},
	{"kube-vmap starts again: it finds its rules", (*walkthrough).restarted},
	{"kube-vmap stops, and kube-vmap cleanup removes its rules", (*walkthrough).removed},
}

// runSections runs all sections, up to an error or the end of ctx.
func runSections(ctx context.Context, e *environment, out *output) error {
	s := &walkthrough{e, out}
	out.print("kube-vmap is the Service proxy of a Kubernetes node. Here the node, pods and a client outside are network namespaces,")
	out.print("and a folder of manifests takes the place of the API server. After each change, requests come from a pod, from the")
	out.print("node and from outside, over IPv4 and IPv6. Indented are what kube-vmap logs, and who answered.")
	for _, c := range sections {
		out.section(c.title)
		if err := c.run(s, ctx); err != nil {
			return fmt.Errorf("section %q failed: %w", c.title, err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *walkthrough) firstStart(ctx context.Context) error {
	if err := s.folder.setEndpoints(s.first(3)); err != nil {
		return err
	}
	u, err := s.start(ctx)
	if err != nil {
		return err
	}
	s.log(u)
	if err := u.oneBatch(); err != nil {
		return err
	}
	return s.askAll(ctx)
}

// changeTo returns a section that makes these pods the endpoints of nginx.
func changeTo(pods ...int) func(*walkthrough, context.Context) error {
	return func(s *walkthrough, ctx context.Context) error {
		_, err := s.change(ctx, pods...)
		if err != nil {
			return err
		}
		return s.verify(ctx, pods...)
	}
}

func (s *walkthrough) endpointReplaced(ctx context.Context) error {
	u, err := s.change(ctx, 0, 1, 2)
	if err != nil {
		return err
	}
	if n := u.Entry["objects"]; n != "0" {
		return fmt.Errorf("a replaced endpoint changed %s chains, rules and maps", n)
	}
	return s.verify(ctx, 0, 1, 2)
}

func (s *walkthrough) scaledToZero(ctx context.Context) error {
	if _, err := s.change(ctx); err != nil {
		return err
	}
	var longest time.Duration
	for _, t := range webs(nginx) {
		for _, c := range s.clients {
			took, err := t.refusal(c)
			if err != nil {
				return err
			}
			longest = max(longest, took)
		}
	}
	s.print("      connections are refused within %.1f ms", longest.Seconds()*1000)
	return s.proxy.idle()
}

// change makes these pods the endpoints of nginx.
func (s *walkthrough) change(ctx context.Context, pods ...int) (update, error) {
	return s.rewrite(ctx, func() error { return s.folder.setEndpoints(s.chosen(pods)) })
}

// rewrite replaces a file and prints what kube-vmap logs. It must send one batch.
func (s *walkthrough) rewrite(ctx context.Context, write func() error) (update, error) {
	if err := write(); err != nil {
		return update{}, err
	}
	u, err := s.proxy.await(ctx, applied)
	if err != nil {
		return u, err
	}
	s.log(u)
	return u, u.oneBatch()
}

// log prints what kube-vmap logged, and the batch.
func (s *walkthrough) log(u update) {
	s.print("      %s", u.line)
	s.detail(u.commands)
}

// verify sends requests to nginx from all clients. No further batch may follow.
func (s *walkthrough) verify(ctx context.Context, pods ...int) error {
	if err := s.ask(ctx, "nginx", webs(nginx), s.chosen(pods)); err != nil {
		return err
	}
	return s.proxy.idle()
}

// chosen returns pods by their index.
func (s *walkthrough) chosen(pods []int) (out []*lab.Pod) {
	for _, i := range pods {
		out = append(out, s.pods[i])
	}
	return out
}

// first returns the first n pods that serve.
func (s *walkthrough) first(n int) []*lab.Pod { return s.pods[:n] }

// askAll sends requests to both Services from all clients.
func (s *walkthrough) askAll(ctx context.Context) error {
	if err := s.ask(ctx, "nginx", webs(nginx), s.first(3)); err != nil {
		return err
	}
	return s.ask(ctx, "dns", []target{{model.UDP, dns[0]}, {model.UDP, dns[1]}}, s.first(2))
}

// webs returns targets for TCP.
func webs(addresses ...[2]netip.AddrPort) (out []target) {
	for _, both := range addresses {
		out = append(out, target{model.TCP, both[0]}, target{model.TCP, both[1]})
	}
	return out
}

// ask sends requests to addresses of a Service from all clients. It prints and verifies
// which pods answered.
func (s *walkthrough) ask(ctx context.Context, service string, targets []target, pods []*lab.Pod) error {
	sum := tally{}
	for _, t := range targets {
		for _, c := range s.clients {
			got, err := t.count(ctx, c)
			if err != nil {
				return err
			}
			s.detail(fmt.Sprintf("%s from %s: %s", t, c.title, got))
			if err := got.check(names(pods)); err != nil {
				return fmt.Errorf("request to %s from %s: %w", t, c.title, err)
			}
			for by, n := range got {
				sum[by] += n
			}
		}
	}
	s.print("      %s: %s", service, sum)
	return nil
}

// oneBatch returns an error unless the update was one batch, or has one before it: chains that are
// new lead nowhere until the other is committed.
func (u update) oneBatch() error {
	if n := u.Entry["batches"]; n != "1" && n != "2" {
		return fmt.Errorf("expected one batch, or two with new chains: %s", u.line)
	}
	return nil
}
