package main

import "github.com/spf13/cobra"

// Exit codes beyond 0 and 1. Commands that compare say by 1 that there is a
// difference, as diff(1) and kubectl diff do, so that an error must be another.
const exitTrouble = 2

// exitError ends the process with a code of its own.
type exitError struct {
	code int
	err  error // nil if there is nothing to say
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// troubleArgs makes wrong arguments of a command trouble, where 1 means something else.
func troubleArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &exitError{exitTrouble, err}
		}
		return nil
	}
}

// troubleFlags makes wrong flags trouble.
func troubleFlags(_ *cobra.Command, err error) error { return &exitError{exitTrouble, err} }
