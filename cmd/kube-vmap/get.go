package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"kube-vmap/cmd/inspect/get"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
)

// addSource adds the flags that choose where get reads, and returns it: the running process
// or, without one, the kernel's tables.
func addSource(f *pflag.FlagSet) get.Source {
	var socket string
	var fromKernel bool
	f.BoolVar(&fromKernel, "kernel", false, "read the kernel's tables, even if kube-vmap runs")
	client.AddSocketFlag(f, &socket)
	return func(ctx context.Context, q nodestatus.Query) (*nodestatus.Document, string, error) {
		if fromKernel {
			return readKernel(ctx, q)
		}
		return askProxy(ctx, socket, q)
	}
}

// askProxy asks the running process or, if none answers, reads the kernel.
func askProxy(ctx context.Context, socket string, q nodestatus.Query) (*nodestatus.Document, string, error) {
	d, err := client.Client{Socket: socket}.Get(ctx, q)
	switch {
	case errors.Is(err, client.ErrUnresponsive):
		return nil, "", fmt.Errorf("%w; --kernel reads the kernel's tables without it", err)
	case !errors.Is(err, client.ErrNotRunning):
		return d, "", err
	}
	d, note, kernelErr := readKernel(ctx, q)
	if kernelErr != nil {
		return nil, "", fmt.Errorf("%w; and in the kernel: %w", err, kernelErr)
	}
	// The advice is only for when the kernel has no tables either.
	why, _, _ := strings.Cut(err.Error(), ": does kube-vmap run?")
	return d, why + "; " + note, nil
}

func readKernel(ctx context.Context, q nodestatus.Query) (d *nodestatus.Document, note string, err error) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	tables, err := k.Read()
	if err != nil {
		return nil, "", err
	}
	if tables == (nft.Tables{}) {
		return nil, "", errors.New("this network namespace has no table of kube-vmap, so nothing is programmed in it")
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
			return nil, "", err
		}
		build.AddResponses(d, min(q.Observe, build.MaxObserved), list)
	}
	return d, "read from the kernel's tables, which have no EndpointSlices, and only the programmed parts of Services" +
		ownership(tables), nil
}

func ownership(t nft.Tables) string {
	protected := false
	for _, f := range model.Families {
		if t[f] == nil {
			continue
		}
		if t[f].Owner != 0 {
			return fmt.Sprintf("; they belong to the process with netlink port %d", t[f].Owner)
		}
		protected = protected || t[f].Protected
	}
	if protected {
		return "; the process they belonged to has ended"
	}
	return "; they belong to no process"
}
