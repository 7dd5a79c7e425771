package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	stdsync "sync"
	"testing"

	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
)

// shared is shared by the tests of a package. Only [Main] closes it.
var shared struct {
	plane *plane.Plane
	lab   *lab.Lab

	// deploying is locked to apply manifests, because concurrent creation of the same
	// object fails, and starting to start a control plane: an API server gives up if it takes a
	// minute, which several at the same time do on a busy machine.
	deploying, starting stdsync.Mutex
}

// Main provides kube-vmap and other programs, runs the tests, closes what they share and ends the
// process.
func Main(m *testing.M, others ...built.Program) {
	code := built.Main(m, others...)
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func closeShared() error {
	var errs []error
	if shared.plane != nil {
		errs = append(errs, shared.plane.Close())
	}
	if shared.lab != nil {
		errs = append(errs, shared.lab.Close())
	}
	return errors.Join(errs...)
}

// Shared returns the control plane that all tests of a package share, in a lab of its own.
// Tests must not kill parts of it.
func Shared(t testing.TB) *plane.Plane {
	t.Helper()
	need(t)
	p, err := startShared()
	Must(t, err)
	return p
}

var startShared = stdsync.OnceValues(func() (*plane.Plane, error) {
	l, err := lab.New(lab.Options{})
	if err != nil {
		return nil, err
	}
	shared.lab = l
	shared.plane, err = start(context.Background(), plane.Options{Host: l.Outside})
	return shared.plane, err
})

// start starts a control plane, one at a time.
func start(ctx context.Context, o plane.Options) (*plane.Plane, error) {
	shared.starting.Lock()
	defer shared.starting.Unlock()
	return plane.Start(ctx, o)
}

// need skips the test if the machine lacks what a cluster needs.
func need(t testing.TB) {
	t.Helper()
	labtest.Require(t)
	if _, err := plane.Program("kubectl"); err != nil {
		labtest.Lacking(t, err)
	}
}

// Program returns the path of kube-vmap; see package built.
func Program(t testing.TB) string {
	t.Helper()
	return built.KubeVMap.Path()
}

// Root returns the top of the repository.
func Root(t testing.TB) string {
	t.Helper()
	kubectl, err := plane.Program("kubectl")
	Must(t, err)
	return filepath.Join(filepath.Dir(kubectl), "..", "..")
}
