package main

import (
	"context"
	"fmt"
	"regexp"
)

// ownerCommands are the commands by which a new process takes over the tables.
var ownerCommands = regexp.MustCompile(`(?m)^add table ip6? kube-vmap \{ flags owner, persist; \}\n`)

// flushed lets another program delete all rules of the node. The kernel protects
// the tables of kube-vmap from that, or if it cannot (before Linux 6.9), kube-vmap
// restores them.
func (s *walkthrough) flushed(ctx context.Context) error {
	before, err := s.generation()
	if err != nil {
		return err
	}
	s.proxy.expected = repaired
	if _, err := s.nft(ctx, "flush", "ruleset"); err != nil {
		return err
	}
	after, err := s.generation()
	if err != nil {
		return err
	}
	if before == after {
		s.print("      no effect: kube-vmap owns its tables, and the kernel lets no other process change them")
	} else {
		u, err := s.proxy.await(ctx, repaired)
		if err != nil {
			return err
		}
		s.log(u)
	}
	return s.askAll(ctx)
}

// generation returns the number that the kernel gives to each state of its rule set.
func (s *walkthrough) generation() (uint32, error) {
	n, err := s.kernel.Generation()
	if err != nil {
		return 0, fmt.Errorf("read the generation: %w", err)
	}
	return n, nil
}

func (s *walkthrough) killed(ctx context.Context) error {
	s.proxy.Kill()
	s.proxy = nil
	return s.askAll(ctx)
}

func (s *walkthrough) restarted(ctx context.Context) error {
	before, err := s.generation()
	if err != nil {
		return err
	}
	u, err := s.start(ctx)
	if err != nil {
		return err
	}
	after, err := s.generation()
	if err != nil {
		return err
	}
	s.log(u)
	if wrote := ownerCommands.ReplaceAllString(u.commands, ""); wrote != "" || (u.commands == "") != (before == after) {
		return fmt.Errorf("the restart wrote: %s", wrote)
	}
	if err := s.askAll(ctx); err != nil {
		return err
	}
	return s.proxy.idle()
}

func (s *walkthrough) removed(ctx context.Context) error {
	err := s.proxy.stop()
	s.proxy = nil
	if err != nil {
		return err
	}
	rules, err := s.nft(ctx, "list", "ruleset")
	if err != nil {
		return err
	}
	s.detail(rules)
	if _, err := s.lab.Node.Command(ctx, s.program, "cleanup", "--force").CombinedOutput(); err != nil {
		return err
	}
	left, err := s.nft(ctx, "list", "ruleset")
	if err == nil && (rules == "" || left != "") {
		err = fmt.Errorf("kube-vmap left %q when it ended, and its cleanup %q", rules, left)
	}
	return err
}
