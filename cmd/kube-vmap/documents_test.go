package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// documents contain commands.
var documents = []string{
	"../../README.md", "../../deploy/README.md", "../../docs/configuration.md", "../../docs/design.md", "../../docs/limits.md",
	"../../docs/metrics.md", "../../docs/runbook.md", "../../docs/security.md", "../../docs/usage.md",
}

func TestCommandsInDocumentsAreValid(t *testing.T) {
	checked := 0
	for _, file := range documents {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			args := typed(line)
			if args == nil {
				continue
			}
			checked++
			if err := taken(args); err != nil {
				t.Errorf("%s:%d: %s: %v", file, n+1, strings.TrimSpace(line), err)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d commands were found", checked)
	}
}

// typed returns the arguments of kube-vmap on a line of code, or nil.
func typed(line string) []string {
	code, indented := strings.CutPrefix(line, "    ")
	words := strings.Fields(code)
	if i := slices.Index(words, "--"); i >= 0 && len(words) > i+1 {
		words = words[i+1:] // after kubectl exec
	}
	if !indented || len(words) == 0 || !slices.Contains([]string{"kube-vmap", "/kube-vmap", "bin/kube-vmap"}, words[0]) {
		return nil
	}
	for i, w := range words {
		if strings.ContainsAny(w, "|>#;&") {
			words = words[:i]
			break
		}
	}
	return words[1:]
}

// taken returns what is invalid in a command line, without running it.
func taken(args []string) error {
	root := rootCommand(io.Discard, io.Discard)
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return fmt.Errorf("find the command: %w", err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return fmt.Errorf("parse the flags of %s: %w", cmd.CommandPath(), err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return fmt.Errorf("look at the arguments of %s: %w", cmd.CommandPath(), err)
	}
	return nil
}
