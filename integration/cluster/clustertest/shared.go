package clustertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	stdsync "sync"
	"testing"

	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
)

// shared is shared by the tests of a package. Only [Main] closes it.
var shared struct {
	plane *plane.Plane
	lab   *lab.Lab
	built string // folder of the program

	// deploying is locked to apply manifests, because concurrent creation of the same
	// object fails.
	deploying stdsync.Mutex
}

// together is the default of -parallel here: more than one test for each CPU, because they
// wait most of the time, but not many, because several have a control plane of their own.
const together = "5"

// Main runs the tests, closes what they share and ends the process.
func Main(m *testing.M) {
	flag.Parse()
	const name = "test.parallel"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		if err := flag.Set(name, together); err != nil {
			panic("clustertest: " + err.Error()) // no such flag
		}
	}
	code := m.Run()
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
	if shared.built != "" {
		errs = append(errs, os.RemoveAll(shared.built))
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
	shared.plane, err = plane.Start(context.Background(), plane.Options{Host: l.Outside})
	return shared.plane, err
})

// need skips the test if the machine lacks what a cluster needs.
func need(t testing.TB) {
	t.Helper()
	labtest.Require(t)
	if _, err := plane.Program("kubectl"); err != nil {
		labtest.Lacking(t, err)
	}
}

// Program returns the path of the built kube-vmap. With GOFLAGS=-race it has the race
// detector, as the tests have. Building it can take longer than [Patience].
func Program(t testing.TB) string {
	t.Helper()
	path, err := buildOnce()
	Must(t, err)
	return path
}

var buildOnce = stdsync.OnceValues(func() (string, error) {
	kubectl, err := plane.Program("kubectl")
	if err != nil {
		return "", err
	}
	if shared.built, err = os.MkdirTemp("", "kube-vmap-"); err != nil {
		return "", err
	}
	path := filepath.Join(shared.built, "kube-vmap")
	// In its own module, not with the versions of this one.
	build := exec.Command("go", "build", "-ldflags", "-X main.version=of-the-tests", "-o", path, "./cmd/kube-vmap")
	build.Dir = top(kubectl)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// Root returns the top of the repository.
func Root(t testing.TB) string {
	t.Helper()
	kubectl, err := plane.Program("kubectl")
	Must(t, err)
	return top(kubectl)
}

// top returns the top of the repository, by the path of one of the plane's programs.
func top(program string) string { return filepath.Join(filepath.Dir(program), "..", "..") }
