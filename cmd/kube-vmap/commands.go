package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
)

// proxyOrKernel is this node, by what the running process knows or, without one, by the kernel's
// tables; it implements [nodes.Nodes].
type proxyOrKernel struct {
	client.ThisNode
	fromKernel bool
	stderr     func() io.Writer
}

// AddFlags adds the flags that choose what is read.
func (n *proxyOrKernel) AddFlags(cmd *cobra.Command) {
	n.ThisNode.AddFlags(cmd)
	n.stderr = cmd.ErrOrStderr
	cmd.Flags().BoolVar(&n.fromKernel, "kernel", false, "read the kernel's tables, even if kube-vmap runs")
}

// Document returns the document, and prints why it is from the kernel.
func (n *proxyOrKernel) Document(
	ctx context.Context, of nodes.Node, q nodestatus.Query,
) (*nodestatus.Document, error) {
	if n.fromKernel {
		return n.readKernel(ctx, q, "")
	}
	d, err := n.ThisNode.Document(ctx, of, q)
	switch {
	case errors.Is(err, client.ErrUnresponsive):
		return nil, fmt.Errorf("%w; --kernel reads the kernel's tables without it", err)
	case !errors.Is(err, client.ErrNotRunning):
		return d, err
	}
	// The advice is only for when the kernel has no tables either.
	why, _, _ := strings.Cut(err.Error(), ": does kube-vmap run?")
	d, kernelErr := n.readKernel(ctx, q, why+"; ")
	if kernelErr != nil {
		return nil, fmt.Errorf("%w; and in the kernel: %w", err, kernelErr)
	}
	return d, nil
}

// readKernel reads the kernel, and prints that.
func (n *proxyOrKernel) readKernel(
	ctx context.Context, q nodestatus.Query, why string,
) (*nodestatus.Document, error) {
	d, err := readKernel(ctx, q)
	if err == nil {
		_, _ = fmt.Fprintln(n.stderr(), why+"read from the kernel's tables, which have no EndpointSlices, and only the "+
			"programmed parts of Services")
	}
	return d, err
}

// explainNoProcess adds to the error that no process answers why there may be none.
func explainNoProcess(err error) error {
	if !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	text, e := takeover.Returned()
	if e != nil || text == "" {
		return err // which is worth more than that the state cannot be read
	}
	return fmt.Errorf("%w; this node was returned to kube-proxy at %s", err, text)
}

func readKernel(ctx context.Context, q nodestatus.Query) (d *nodestatus.Document, err error) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	tables, err := k.Read()
	if err != nil {
		return nil, err
	}
	if tables == (nft.Tables{}) {
		return nil, errors.New("this network namespace has no table of kube-vmap, so nothing is programmed in it")
	}
	d = build.FromTables(tables, q, time.Now())
	counts := build.Counts{Active: build.ActiveCounts(conntrack.New(conntrack.Config{}))}
	if tables.CountsConnections() {
		counts.Total = build.TotalCounts(k)
	}
	counts.AddTo(d)
	if q.Observe > 0 {
		list, err := build.ObserveNode(ctx, q.Observe)
		if err != nil {
			return nil, err
		}
		build.AddResponses(d, min(q.Observe, nodestatus.MaxObserved), list)
	}
	return d, nil
}
