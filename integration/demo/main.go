// Command demo shows what kube-vmap does. It makes a cluster of network
// namespaces, runs the built kube-vmap as the proxy of its node on a folder of
// manifests, asks the Services from a pod, from the node and from outside while
// endpoints come and go, and tells about it as it goes:
//
//	make demo
//	demo PATH/TO/kube-vmap
//
// What is told is checked: the exit code is 1 if anything is not so. Nothing is
// left behind, also after an interruption.
//
// The story itself is in story.go, the cluster in stage.go; the other files are
// how to do what these two say.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"kube-vmap/integration/lab"
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit code: 0, or 1 with one line on stderr that says why.
func run(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: demo PATH/TO/kube-vmap")
		return 1
	}
	// A closed pipe, as behind `make demo | head`, is an interruption like others.
	ctx, stop := signal.NotifyContext(context.Background(),
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	if err := demo(ctx, args[0], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	return 0
}

// demo sets the stage, tells the story, and clears the stage, whatever happens.
func demo(ctx context.Context, program string, out io.Writer) error {
	if err := missing(program); err != nil {
		return fmt.Errorf("cannot run: %w", err)
	}
	start := time.Now()
	stage, err := newStage(program)
	if err != nil {
		return err
	}
	p := &page{w: out}
	err = tell(ctx, stage, p)
	if left := stage.close(); left != nil {
		return errors.Join(err, fmt.Errorf("clean up: %w", left))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted (%w); everything is removed", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	p.say("")
	p.say("All as told. Processes, namespaces and files are removed; it took %.1f s.", time.Since(start).Seconds())
	return p.err
}

// missing says what the demo needs and does not find.
func missing(program string) error {
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
