// Package docstest finds the command lines in the documents of the tree, for tests of the programs
// that they run.
package docstest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Command is a command line in a document.
type Command struct {
	Place string // file and line
	Args  []string
	// Complete is false for a command in a sentence, which may lack arguments.
	Complete bool
}

var (
	inline  = regexp.MustCompile("`([^`\n]+)`")
	prompt  = regexp.MustCompile(`^(\$ |sudo |ssh \S+ )+`)
	another = regexp.MustCompile(`^([|>#&(].*|.*;)$`)
)

// Commands returns the commands in the documents of a tree that run a program, such as "kubectl
// vmap", which the arguments do not have.
func Commands(t testing.TB, top, program string) (found []Command) {
	t.Helper()
	for _, page := range pages(t, top) {
		text, err := os.ReadFile(filepath.Join(top, page))
		if err != nil {
			t.Fatal(err)
		}
		fenced := false
		for n, line := range strings.Split(strings.ReplaceAll(string(text), "\\\n", ""), "\n") {
			place := fmt.Sprintf("%s:%d", page, n+1)
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
				continue
			}
			if code := prompt.ReplaceAllString(strings.TrimSpace(line), ""); fenced || strings.HasPrefix(line, "    ") {
				if args, ok := argsOf(code, program); ok {
					found = append(found, Command{Place: place, Args: args, Complete: true})
				}
				continue
			}
			for _, span := range inline.FindAllStringSubmatch(line, -1) {
				if args, ok := argsOf(span[1], program); ok {
					found = append(found, Command{Place: place, Args: args})
				}
			}
		}
	}
	return found
}

// Check checks all commands that run a program, without running them: there are at least so many, and
// each has a subcommand, flags and arguments that its root command accepts.
func Check(t testing.TB, top, program string, least int, root func() *cobra.Command) {
	t.Helper()
	commands := Commands(t, top, program)
	if len(commands) < least {
		t.Errorf("only %d commands were found", len(commands))
	}
	for _, c := range commands {
		if err := c.check(root()); err != nil {
			t.Errorf("%s: %s %s: %v", c.Place, program, strings.Join(c.Args, " "), err)
		}
	}
}

func (c Command) check(root *cobra.Command) error {
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(c.Args)
	if err != nil {
		return fmt.Errorf("find the command: %w", err)
	}
	if err := cmd.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return fmt.Errorf("parse the flags of %s: %w", cmd.CommandPath(), err)
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil && c.Complete {
		return fmt.Errorf("look at the arguments of %s: %w", cmd.CommandPath(), err)
	}
	return nil
}

// argsOf returns the arguments of the first program of a line, or of the one that kubectl exec
// runs, if it is the given one.
func argsOf(code, program string) ([]string, bool) {
	words := strings.Fields(code)
	if i := slices.Index(words, "--"); i >= 0 && len(words) > i+1 && words[0] == "kubectl" {
		words = append([]string{filepath.Base(words[i+1])}, words[i+2:]...)
	}
	want := strings.Fields(program)
	if len(words) < len(want) || !slices.Equal(append([]string{strings.TrimPrefix(words[0], "bin/")}, words[1:len(want)]...), want) {
		return nil, false
	}
	words = words[len(want):]
	if i := slices.IndexFunc(words, another.MatchString); i >= 0 {
		words = words[:i]
	}
	return words, true
}

// pages returns the documents of a tree, without the changelog, which names what was removed.
func pages(t testing.TB, top string) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(top), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (path == "bin" || strings.HasPrefix(path, ".")) && path != "." {
			return fs.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".md" && path != "CHANGELOG.md" {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
