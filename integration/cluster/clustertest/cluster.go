package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	stdsync "sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
)

// Patience is the time limit for everything that must happen, for hangs: tests use one [Context] for
// several steps.
const Patience = 10 * time.Minute

// Cluster is a control plane with the nodes and pods of a lab.
type Cluster struct {
	*plane.Plane
	Lab *lab.Lab
	// Server is the URL of the API server as the lab's hosts reach it: directly, or
	// by a relay to the plane that all tests share.
	Server string

	name     string // unique in the API
	deployed bool
}

// New builds a lab that is closed with the test, connected to the control plane
// that all tests of the package share, and makes a Node for each of its nodes. The
// package's TestMain must be [Main]. It skips the test if the machine cannot have all
// that, or fails it if [labtest.RequireVariable] is set.
func New(t testing.TB, o lab.Options) *Cluster {
	t.Helper()
	p := Shared(t)
	l := labtest.New(t, o)
	relay, err := p.Relay(l.Outside, p.AddrPort().Port())
	Must(t, err)
	t.Cleanup(relay.Down)
	return build(t, p, l, relay.URL())
}

// Alone is [New] with a control plane for the test alone, on the lab's host
// outside.
func Alone(t testing.TB, o lab.Options) *Cluster {
	t.Helper()
	need(t)
	l := labtest.New(t, o)
	return AloneIn(t, l, plane.Options{Host: l.Outside})
}

// AloneIn is [Alone] with a lab and options of the caller's.
func AloneIn(t testing.TB, l *lab.Lab, o plane.Options) *Cluster {
	t.Helper()
	need(t)
	p, err := start(t.Context(), o)
	Must(t, err)
	t.Cleanup(func() { Must(t, p.Close()) })
	return build(t, p, l, p.URL())
}

// numbered makes names unique among tests that run several times.
var numbered atomic.Int64

func build(t testing.TB, p *plane.Plane, l *lab.Lab, server string) *Cluster {
	t.Helper()
	c := &Cluster{Plane: p, Lab: l, Server: server, name: fmt.Sprintf("t%d", numbered.Add(1))}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs of the control plane:\n%s", p.Logs())
		}
	})
	for _, n := range c.Lab.Nodes() {
		name := c.NodeName(n)
		_, err := objects.CreateNode(t.Context(), p.Client, objects.Node(name, n))
		Must(t, err)
		cleanup(t, func(ctx context.Context) error {
			return p.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		})
	}
	return c
}

// NodeName returns the name of a lab's node in the API: that in the lab, behind one of
// this cluster's own.
func (c *Cluster) NodeName(n *lab.Node) string { return c.name + "-" + n.Name }

// At returns the place of one of the lab's pods.
func (c *Cluster) At(p *lab.Pod) objects.Place { return objects.At(c.NodeName(p.Node()), p) }

// Namespace creates a namespace. It is deleted after the test, without waiting.
func (c *Cluster) Namespace(t testing.TB) *objects.Namespace {
	t.Helper()
	ns, err := objects.NewNamespace(Context(t), c.Client, fmt.Sprintf("%s-%d", c.name, numbered.Add(1)))
	Must(t, err)
	cleanup(t, ns.Delete)
	return ns
}

// Deploy applies deploy/base, once: the account and permissions of proxies. [Cluster.Proxy]
// calls it.
func (c *Cluster) Deploy(t testing.TB) {
	t.Helper()
	if c.deployed {
		return
	}
	c.deployed = true
	shared.deploying.Lock()
	defer shared.deploying.Unlock()
	_, err := c.Kubectl(Context(t), "apply", "-k", filepath.Join(Root(t), "deploy", "base"))
	Must(t, err)
}

// Context ends after [Patience], or with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(strings.TrimRight(err.Error(), "\n"))
	}
}

// cleanup runs do after the test. It may fail if the test killed the API server.
func cleanup(t testing.TB, do func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := do(ctx); err != nil {
			t.Logf("clean up: %v", err)
		}
	})
}

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
