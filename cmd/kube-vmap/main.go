// Command kube-vmap is a Kubernetes Service proxy for the node it runs on. It
// programs nftables over netlink and takes kube-proxy's place.
//
//	kube-vmap --config FILE            run as the node's proxy until SIGTERM
//	kube-vmap --manifests DIR          the same, with Services from a folder
//	kube-vmap get, explain, top        say what it programs, and does
//	kube-vmap render, diff             print the rule set, and what differs in the kernel
//	kube-vmap bundle                   collect all that helps to find a fault
//	kube-vmap cleanup                  remove the rule set
//	kube-vmap version                  say which version this is
//
// The command wires what the other packages do: a source of objects, the loop
// that turns them into batches, and the kernel that takes those.
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
)

// version is set by the linker.
var version = "unknown"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0, or another with one line on stderr that says why.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := rootCommand(stdout, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := 1
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if text := err.Error(); text != "" && !errors.Is(err, errTold) {
		_, _ = fmt.Fprintln(stderr, "kube-vmap:", strings.ReplaceAll(text, "\n", "; ")) // there is no other place to say it
	}
	return code
}
