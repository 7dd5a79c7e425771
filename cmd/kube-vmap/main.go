// Command kube-vmap is a Kubernetes Service proxy for the node it runs on. It
// programs nftables over netlink and takes kube-proxy's place.
//
//	kube-vmap --config FILE            run as the node's proxy until SIGTERM
//	kube-vmap --manifests DIR          the same, with Services from a folder
//	kube-vmap get, explain, top        show what is programmed, and its traffic
//	kube-vmap render, diff             print the rule set, and how the kernel differs
//	kube-vmap preflight                check a node before it runs there
//	kube-vmap bundle                   collect diagnostics into an archive
//	kube-vmap cleanup                  remove the rule set
//
// This package only connects the others: run.go goes from flags to the configuration,
// to the parts of the proxy, and runs them; root.go has the commands, most of which are
// instruments in cmd/inspect.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"kube-vmap/cmd/inspect/exit"
)

// version is set by the linker.
var version = "unknown"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0, or another one after a line on stderr that gives the reason.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills the process
	root := rootCommand(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" && !errors.Is(err, errLogged) {
		_, _ = fmt.Fprintln(stderr, "kube-vmap:", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return exit.Code(err)
}
