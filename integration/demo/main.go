// Command demo shows what kube-vmap does, with real packets. It builds a cluster of
// network namespaces and runs kube-vmap on its node, on a folder of manifests.
// Then it changes the manifests, sends requests to the Services from a pod, from
// the node and from outside, and prints in 40 lines what happens. With -v it also prints
// each batch as nft commands, each client's answers, and the rules in the kernel:
//
//	make demo
//	make demo VERBOSE=-v
//
// Everything that it prints is verified: the exit code is 1 if anything differs
// from what is expected. It leaves nothing behind, even if it is interrupted.
//
// The sections of the demo are listed in walkthrough.go. environment.go builds the
// cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"kube-vmap/integration/lab"
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit code: 0, or 1 after one line on stderr with the reason.
func run(args []string) int {
	verbose := len(args) > 0 && args[0] == "-v"
	if verbose {
		args = args[1:]
	}
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: demo [-v] PATH/TO/kube-vmap")
		return 1
	}
	// SIGPIPE comes if a reader such as `head` closes the pipe.
	ctx, stop := signal.NotifyContext(context.Background(),
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	if err := demo(ctx, args[0], &output{w: os.Stdout, verbose: verbose}); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	return 0
}

// demo builds the environment, runs all sections, and removes the environment in
// any case.
func demo(ctx context.Context, program string, out *output) error {
	if err := checkRequirements(program); err != nil {
		return fmt.Errorf("cannot run: %w", err)
	}
	start := time.Now()
	e, err := newEnvironment(program)
	if err != nil {
		return err
	}
	err = runSections(ctx, e, out)
	if left := e.close(); left != nil {
		return errors.Join(err, fmt.Errorf("clean up: %w", left))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted (%w); everything is removed", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	out.print("Everything above was verified. All processes, namespaces and files are removed. This took %.1f s.", time.Since(start).Seconds())
	if !out.verbose {
		out.print("What was sent to the kernel, and the rules there: make demo VERBOSE=-v. How they work: docs/design.md.")
	}
	return out.err
}

// checkRequirements returns an error if the machine lacks something.
func checkRequirements(program string) error {
	if err := lab.Missing(); err != nil {
		return err
	}
	for _, name := range []string{program, "nft"} {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}
	return nil
}
