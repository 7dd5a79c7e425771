package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// possession is what a process writes that finds everything as it should be.
var possession = regexp.MustCompile(`(?m)^add table ip6? kube-vmap \{ flags owner, persist; \}\n`)

// flushed has another program delete all rules of the node: the tables of kube-vmap
// are passed by where the kernel protects them, else they come back.
func (s *story) flushed(ctx context.Context) error {
	s.say("   $ nft flush ruleset")
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
	s.say("")
	if before == after {
		s.say("   The tables belong to kube-vmap. The kernel lets nobody else change them, and the command has passed them by:")
	} else {
		u, err := s.proxy.await(ctx, repaired)
		if err != nil {
			return err
		}
		s.say("   This kernel does not protect tables. kube-vmap has noticed, and all is as it was:")
		s.quote(u.line.plain())
	}
	s.say("")
	return s.askAll(ctx, s.first(3))
}

func (s *story) killed(ctx context.Context) error {
	s.say("   $ kill -9 %d", s.proxy.cmd.Process.Pid)
	err := s.proxy.kill()
	s.proxy = nil
	if err != nil {
		return err
	}
	s.say("")
	s.say("   It is gone, its rules stay. Packets never passed through kube-vmap:")
	s.say("")
	return s.askAll(ctx, s.first(3))
}

func (s *story) again(ctx context.Context) error {
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
	s.say("   It reads what the kernel holds, compares, and logs:")
	s.quote(u.line.plain())
	s.say("   The kernel counts the changes of its rule set: it was at %d before and is at %d now.", before, after)
	if u.commands != "" {
		s.say("   All that was written takes possession of the tables again:")
		s.quote(u.commands)
	}
	if wrote := possession.ReplaceAllString(u.commands, ""); wrote != "" || (u.commands == "") != (before == after) {
		return fmt.Errorf("the restart wrote: %s", wrote)
	}
	s.say("")
	if err := s.askAll(ctx, s.first(3)); err != nil {
		return err
	}
	return s.proxy.quiet()
}

func (s *story) rules(ctx context.Context) error {
	s.say("   kube-vmap ends in good order, and leaves its rules:")
	s.say("")
	s.say("   $ nft list ruleset")
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
		return fmt.Errorf("there are other tables than those of kube-vmap for ip and ip6:\n%s", listing)
	}
	s.quote(ipv4)
	s.say("   What is empty is for Services without endpoints, and for those that limit who may come.")
	s.say("   table ip6 kube-vmap is another %d lines of the same shape.", strings.Count(ipv6, "\n")+1)
	return s.cleanup(ctx)
}

// cleanup removes the rules with the command for that.
func (s *story) cleanup(ctx context.Context) error {
	s.say("")
	s.say("   $ kube-vmap cleanup")
	// It logs what it removed.
	if _, err := s.lab.Node.Command(ctx, s.program, "cleanup").CombinedOutput(); err != nil {
		return err
	}
	listing, err := s.nft(ctx, "list", "ruleset")
	if err != nil {
		return err
	}
	if listing != "" {
		return fmt.Errorf("kube-vmap cleanup left:\n%s", listing)
	}
	s.say("   Now the node has no rules any more.")
	return nil
}
