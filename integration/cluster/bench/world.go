package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
)

// nodeName is the name of the node with the proxies; all pods are on another one.
const nodeName = "node-1"

// world is a control plane with many Services, and a node.
type world struct {
	lab      *lab.Lab
	plane    *plane.Plane
	kernel   *kernel.Kernel // nf_tables of the node, for reading
	ns       *objects.Namespace
	filling  *objects.Filling
	programs programs

	dir        string // for files
	kubeconfig string // of the account that deploy/base gives to the proxy
	closers    []func() error
}

// newWorld creates a world, which must be closed.
func newWorld(ctx context.Context, of size) (*world, error) {
	w := &world{filling: &objects.Filling{
		Services: of.services, Prefix: "service", Endpoints: of.endpoints, Node: "node-2", Families: []model.Family{model.IPv4},
	}}
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"build the programs", w.build},
		{"start a control plane", w.begin},
		{"make " + w.size(), w.fill},
	}
	for _, s := range steps {
		start := time.Now()
		if err := s.do(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", s.name, err), w.close())
		}
		progress("%s: %s", s.name, time.Since(start))
	}
	return w, nil
}

// progress prints a line while the bench runs. All arguments are cells, for %s.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", report.Texts(args)...)
}

// size describes the objects in the world.
func (w *world) size() string {
	return fmt.Sprintf("%s Services with %d endpoints", report.Text(w.filling.Services), w.filling.Endpoints)
}

// begin starts the control plane and creates the node and the proxy's account.
func (w *world) begin(ctx context.Context) (err error) {
	if w.lab, err = lab.New(lab.Options{}); err != nil {
		return err
	}
	w.closers = append(w.closers, w.lab.Close)
	if w.kernel, err = kernel.Open(kernel.Config{NetNS: w.lab.Node.FD()}); err != nil {
		return err
	}
	w.closers = append(w.closers, w.kernel.Close)
	if w.plane, err = plane.Start(ctx, plane.Options{Host: w.lab.Outside}); err != nil {
		return err
	}
	w.closers = append(w.closers, w.plane.Close)
	if _, err := objects.CreateNode(ctx, w.plane.Client, objects.Node(nodeName, "", w.lab.Node)); err != nil {
		return err
	}
	if _, err := w.plane.Kubectl(ctx, "apply", "-k", filepath.Join(w.programs.root, "deploy", "base")); err != nil {
		return err
	}
	w.kubeconfig = filepath.Join(w.dir, "kubeconfig")
	return w.plane.ServiceAccountKubeconfig(ctx, "kube-system", "kube-vmap", w.plane.URL(), w.kubeconfig)
}

// fill creates the Services, and an additional one with an endpoint more than the others,
// so that the chains for that many endpoints exist when a Service gains one, as they nearly
// always do in a large cluster.
func (w *world) fill(ctx context.Context) (err error) {
	if w.ns, err = objects.NewNamespace(ctx, w.plane.Client, "bench"); err != nil {
		return err
	}
	if err := w.ns.Fill(ctx, w.filling); err != nil {
		return err
	}
	return w.ns.Fill(ctx, &objects.Filling{
		Services: 1, Prefix: "larger", Endpoints: w.filling.Endpoints + 1, Node: w.filling.Node, Families: w.filling.Families,
	})
}

// close removes everything.
func (w *world) close() error {
	var errs []error
	for len(w.closers) > 0 {
		last := len(w.closers) - 1
		errs = append(errs, w.closers[last]())
		w.closers = w.closers[:last]
	}
	return errors.Join(errs...)
}
