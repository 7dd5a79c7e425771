// Command kubectl-vmap is a plugin of kubectl, "kubectl vmap": it asks the nodes of a cluster
// what kube-vmap programs there, from the machine of a user. It needs the API server only.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"kube-vmap/cmd/inspect/exit"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs a command line, and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it immediately, whatever it waits for
	root := rootCommand(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		_, _ = fmt.Fprintln(stderr, "error:", err)
	}
	return exit.Code(err)
}
