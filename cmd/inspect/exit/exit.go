// Package exit gives commands an exit code of their own. 0 is success and 1 an error,
// but diff, explain and problems use 1 as an answer (there is a difference; the packet does
// not arrive), as diff(1) and kubectl diff do: their errors are [Trouble]. A cleanup
// that would leave a node without rules ends with [Refused].
package exit

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Trouble is the exit code of a command that could not find its answer.
const Trouble = 2

// Refused is the exit code of "kube-vmap cleanup" where nothing would serve without our rules.
const Refused = 4

// Error ends the process with a code of its own.
type Error struct {
	Code int
	Err  error // nil prints nothing
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the error that is printed.
func (e *Error) Unwrap() error { return e.Err }

// Run runs a command until it ends or a signal ends its context, and returns its exit code. A second
// signal kills the process, whatever it waits for. report gets an error that is to be printed.
func Run(root *cobra.Command, args []string, report func(error)) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		report(err)
	}
	return Code(err)
}

// Code returns the exit code for what a command returned.
func Code(err error) int {
	var exit *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	}
	return 1
}

// TroubleOnError makes all errors of a command [Trouble] that have no exit code of their own, also of
// arguments and flags: for commands whose exit code 1 is a result.
func TroubleOnError(cmd *cobra.Command) *cobra.Command {
	trouble := func(err error) error {
		if coded := (*Error)(nil); err == nil || errors.As(err, &coded) {
			return err
		}
		return &Error{Trouble, err}
	}
	validate, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error { return trouble(validate(cmd, args)) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return trouble(run(cmd, args)) }
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return trouble(err) })
	return cmd
}
