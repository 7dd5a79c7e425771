package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// ownerCommands are the commands by which a new process takes over the tables.
var ownerCommands = regexp.MustCompile(`(?m)^add table ip6? kube-vmap \{ flags owner, persist; \}\n`)

// flushed lets another program delete all rules of the node. The kernel protects
// the tables of kube-vmap from that, or if it cannot (before Linux 6.9), kube-vmap
// restores them.
func (s *walkthrough) flushed(ctx context.Context) error {
	s.print("   $ nft flush ruleset")
	before, err := s.kernel.Generation()
	if err != nil {
		return fmt.Errorf("read the generation: %w", err)
	}
	s.proxy.expected = repaired
	if _, err := s.nft(ctx, "flush", "ruleset"); err != nil {
		return err
	}
	after, err := s.kernel.Generation()
	if err != nil {
		return fmt.Errorf("read the generation: %w", err)
	}
	s.print("")
	if before == after {
		s.print("   The tables are owned by kube-vmap, so the kernel lets no other process change them. The command had no effect on them:")
	} else {
		u, err := s.proxy.await(ctx, repaired)
		if err != nil {
			return err
		}
		s.print("   This kernel cannot protect tables. kube-vmap noticed the change and restored its rules:")
		s.quote(u.line)
	}
	s.print("")
	return s.askAll(ctx, s.first(3))
}

func (s *walkthrough) killed(ctx context.Context) error {
	s.print("   $ kill -9 %d", s.proxy.PID())
	s.proxy.Kill()
	s.proxy = nil
	s.print("")
	s.print("   The process is gone, the rules remain. Packets never pass through the process, so nothing changes for clients:")
	s.print("")
	return s.askAll(ctx, s.first(3))
}

func (s *walkthrough) restarted(ctx context.Context) error {
	before, err := s.kernel.Generation()
	if err != nil {
		return fmt.Errorf("read the generation: %w", err)
	}
	u, err := s.start(ctx)
	if err != nil {
		return err
	}
	after, err := s.kernel.Generation()
	if err != nil {
		return fmt.Errorf("read the generation: %w", err)
	}
	s.print("   It reads the rules in the kernel, compares them with the manifests, and logs:")
	s.quote(u.line)
	s.print("   The kernel numbers the generations of its rule set: %d before the start, %d now.", before, after)
	if u.commands != "" {
		s.print("   The only thing written is the ownership of the tables:")
		s.quote(u.commands)
	}
	if wrote := ownerCommands.ReplaceAllString(u.commands, ""); wrote != "" || (u.commands == "") != (before == after) {
		return fmt.Errorf("the restart wrote: %s", wrote)
	}
	s.print("")
	if err := s.askAll(ctx, s.first(3)); err != nil {
		return err
	}
	return s.proxy.idle()
}

func (s *walkthrough) rules(ctx context.Context) error {
	s.print("   kube-vmap is stopped by SIGTERM. It leaves its rules:")
	s.print("")
	s.print("   $ nft list ruleset")
	err := s.proxy.stop()
	s.proxy = nil
	if err != nil {
		return err
	}
	listing, err := s.nft(ctx, "list", "ruleset")
	if err != nil {
		return err
	}
	ipv4, ipv6, both := strings.Cut(listing, "table ip6 kube-vmap {\n")
	if !both || !strings.HasPrefix(ipv4, "table ip kube-vmap {\n") || strings.Contains(ipv6, "\ntable ") {
		return fmt.Errorf("unexpected tables:\n%s", listing)
	}
	s.quote(ipv4)
	s.print("   The empty maps are for Services without endpoints and for Services with source ranges.")
	s.print("   table ip6 kube-vmap has the same structure in another %d lines.", strings.Count(ipv6, "\n")+1)
	return s.cleanup(ctx)
}

// cleanup removes the rules with `kube-vmap cleanup`; no other proxy is there to serve.
func (s *walkthrough) cleanup(ctx context.Context) error {
	s.print("")
	s.print("   $ kube-vmap cleanup --force")
	if _, err := s.lab.Node.Command(ctx, s.program, "cleanup", "--force").CombinedOutput(); err != nil {
		return err
	}
	listing, err := s.nft(ctx, "list", "ruleset")
	if err != nil {
		return err
	}
	if listing != "" {
		return fmt.Errorf("kube-vmap cleanup left:\n%s", listing)
	}
	s.print("   The node has no rules left.")
	return nil
}
