package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"kube-vmap/integration/cluster/plane"
)

// programs are the paths of the programs, and the top of the repository.
type programs struct{ root, kubeVMap, informers, kubeProxy string }

// build builds the programs as for a release.
func (w *world) build(ctx context.Context) (err error) {
	p := &w.programs
	if p.kubeProxy, err = plane.Program("kube-proxy"); err != nil {
		return err
	}
	p.root = filepath.Join(filepath.Dir(p.kubeProxy), "..", "..")
	if w.dir, err = os.MkdirTemp("", "kube-vmap-bench-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	w.closers = append(w.closers, func() error { return os.RemoveAll(w.dir) })
	p.informers, p.kubeVMap = filepath.Join(w.dir, "informers"), filepath.Join(w.dir, "kube-vmap")
	if err := goBuild(ctx, filepath.Join(p.root, "integration", "cluster"), "./informers", p.informers); err != nil {
		return err
	}
	return goBuild(ctx, p.root, "./cmd/kube-vmap", p.kubeVMap)
}

func goBuild(ctx context.Context, dir, pkg, to string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", to, pkg)
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
