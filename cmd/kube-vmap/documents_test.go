package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
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
	for _, file := range documents {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			if args := typed(line); args == nil {
				continue
			} else if err := taken(args); err != nil {
				t.Errorf("%s:%d: %s: %v", file, n+1, strings.TrimSpace(line), err)
			}
		}
	}
}

// TestCommandsOfDocumentsAreFound proves that the other test can fail.
func TestCommandsOfDocumentsAreFound(t *testing.T) {
	for line, want := range map[string]string{
		"    kube-vmap get services -n NAMESPACE":                 "get services -n NAMESPACE",
		"    kubectl exec POD -- /kube-vmap get svc | less":       "get svc",
		"    bin/kube-vmap --manifests DIR -v 2   # with its log": "--manifests DIR -v 2",
		"    nft list table ip kube-vmap":                         "",
		"kube-vmap get rid of":                                    "", // prose
	} {
		if got := strings.Join(typed(line), " "); got != want {
			t.Errorf("%q has the command %q, want %q", line, got, want)
		}
	}
	for _, wrong := range []string{"gett services", "get services --namspace x", "cleanup now", "--proxy-modus x"} {
		if taken(strings.Fields(wrong)) == nil {
			t.Errorf("%q is taken", wrong)
		}
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

func TestLinksOfDocumentsResolve(t *testing.T) {
	link, heading := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`), regexp.MustCompile(`(?m)^#+ (.+)$`)
	for _, file := range documents {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := file
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(file), m[1])
			}
			there, err := os.ReadFile(to)
			if m[2] == "" {
				if _, err := os.Stat(to); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				continue
			}
			anchors := heading.FindAllStringSubmatch(string(there), -1)
			if err != nil || !slices.ContainsFunc(anchors, func(h []string) bool { return anchor(h[1]) == m[2] }) {
				t.Errorf("%s leads to %s#%s, where there is nothing: %v", file, to, m[2], err)
			}
		}
	}
}

// anchor returns the anchor of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(regexp.MustCompile("[^a-z0-9_ -]").ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
