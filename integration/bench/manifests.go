package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/manifests"
)

// manifests measures the start of the loop with a folder of manifests, until it is ready.
func (b *bench) manifests() (err error) {
	s := b.Section("First load from a folder of manifests", "", "folder", "read", "total", "kernel", "floor", "kernel/floor")
	s.Note("read: YAML to model values; total: from the start of the loop to ready; floor: the same bytes prepared beforehand")
	c := newCluster(standard, model.IPv4)
	folder, err := os.MkdirTemp("", "kube-vmap-bench-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	size, err := c.write(folder)
	if err != nil {
		return err
	}
	start := time.Now()
	if _, problems := manifests.Load(folder, thisNode); len(problems) > 0 {
		return errors.Join(problems...)
	}
	read := time.Since(start)
	var first commit
	var total, floor time.Duration
	err = inSandbox(func(box *sandbox) (err error) {
		total, first, err = observe(box.kernel).ready(folder)
		return err
	})
	if err != nil {
		return err
	}
	prepared, err := prepare(first.batch)
	if err != nil {
		return err
	}
	err = inSandbox(func(box *sandbox) (err error) {
		floor, err = box.raw.send(prepared...)
		return err
	})
	against := report.Ratio(first.applied.Kernel, floor)
	s.Add(c.label(), report.Bytes(size), read, total, first.applied.Kernel, floor, report.Factor(against))
	b.Promise(against < 2, "first load from manifests, %s: kernel part %s floor, below 2 x", c.label(), report.Factor(against))
	return err
}

// ready runs the loop with a folder and returns how long it took to be ready, and the
// first batch.
func (w *observedKernel) ready(folder string) (time.Duration, commit, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	loop := sync.NewLoop(sync.Config{NodeName: thisNode, Rules: config}, manifests.New(folder, thisNode, quiet), w, quiet)
	done, first := make(chan error, 1), w.await(model.ServiceName{})
	start := time.Now()
	go func() { done <- loop.Run(ctx) }()
	select {
	case <-loop.Ready():
	case err := <-done:
		return 0, commit{}, errors.Join(errors.New("the loop ended before it was ready"), err)
	}
	took := time.Since(start)
	cancel()
	return took, <-first, <-done
}

// perFile is how many Services a file of the folder holds.
const perFile = 100

// write writes the cluster as manifests and returns their length in bytes.
func (c *cluster) write(folder string) (size int, err error) {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: kubernetes}\n"+
		"spec: {cidrs: [%s, %s]}\n", lab.ServiceRanges[model.IPv4], lab.ServiceRanges[model.IPv6])
	for i := range c.size.services {
		c.writeService(&text, i)
		if i%perFile == perFile-1 || i == c.size.services-1 {
			size += text.Len()
			name := filepath.Join(folder, fmt.Sprintf("%06d.yaml", i))
			if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
				return 0, err
			}
			text.Reset()
		}
	}
	return size, nil
}

// writeService writes Service number i with its EndpointSlice.
func (c *cluster) writeService(text *strings.Builder, i int) {
	s, slice := c.service(i), c.slice(i, 0, c.pods(i, c.size.endpoints))
	fmt.Fprintf(text, "---\napiVersion: v1\nkind: Service\nmetadata: {namespace: %s, name: %s}\n"+
		"spec: {clusterIP: %s, ports: [{name: http, port: %d}]}\n",
		s.Name.Namespace, s.Name.Name, s.ClusterIPs[0], s.Ports[0].Port)
	fmt.Fprintf(text, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {namespace: %s, name: %s, "+
		"labels: {kubernetes.io/service-name: %s}}\naddressType: %s\nports: [{name: http, port: %d}]\nendpoints:\n",
		slice.Name.Namespace, slice.Name.Name, s.Name.Name, slice.Family, slice.Ports[0].Port)
	for _, e := range slice.Endpoints {
		fmt.Fprintf(text, "- {addresses: [%s], nodeName: %s}\n", e.Addr, e.Node)
	}
}
