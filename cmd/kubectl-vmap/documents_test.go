package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"kube-vmap/cmd/inspect/docstest"
)

func TestCommandsInDocumentsAreValid(t *testing.T) {
	commands := docstest.Commands(t, "../..", "kubectl vmap")
	if len(commands) < 15 {
		t.Errorf("only %d commands were found", len(commands))
	}
	for _, c := range commands {
		if err := taken(c); err != nil {
			t.Errorf("%s: kubectl vmap %s: %v", c.Place, strings.Join(c.Args, " "), err)
		}
	}
}

// taken returns what is invalid in a command line, without running it.
func taken(c docstest.Command) error {
	root := rootCommand(io.Discard, io.Discard)
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
