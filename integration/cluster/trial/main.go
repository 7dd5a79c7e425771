// Command trial sets up one fault in a cluster of three nodes, prints the symptom, and
// waits: for people who look for the cause with kubectl vmap and do not know it.
//
//	cd integration/cluster && go run ./trial 7
//
// Which number is which fault is not in the order of the table. The faults are tested in
// this package: kubectl vmap finds each by one command.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/eventually"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := built.Provide(built.KubeVMap, built.Plugin)
	if err == nil {
		err = run(ctx, os.Args[1:])
	}
	stop()
	built.Remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, "trial:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	number := 0
	if len(args) == 1 {
		number, _ = strconv.Atoi(args[0])
	}
	if number < 1 || number > len(faults) {
		return fmt.Errorf("want the number of a trial, 1 to %d", len(faults))
	}
	return clustertest.AsTest(ctx, "trial", func(t testing.TB) error { return try(ctx, t, shuffled()[number-1]) })
}

// shuffled returns the faults in an order that the table does not show.
func shuffled() []fault {
	return slices.SortedFunc(slices.Values(faults), func(a, b fault) int {
		x, y := sha256.Sum256([]byte("trial "+a.name)), sha256.Sum256([]byte("trial "+b.name))
		return slices.Compare(x[:], y[:])
	})
}

// try prepares a cluster with the fault and waits.
func try(ctx context.Context, t testing.TB, f fault) error {
	t.Helper()
	c := plugin.New(t, podsPerNode)
	if err := serve(c); err != nil {
		return err
	}
	s := newScene(t, c, 1)
	f.set(s)
	if err := eventually.Try(s.context(), func() error { return f.fails(s) }); err != nil {
		return fmt.Errorf("there is no fault: %w", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(c.Script(t)), 0o755); err != nil {
		return errors.Join(errors.New("write a script"), err)
	}
	fmt.Printf("A user reports: %s.\n\nexport PATH=%s:$PATH   # kubectl at the machine of a user\nUntil ^C.\n", s.expand(f.symptom), dir)
	<-ctx.Done()
	return nil
}

// expand replaces names in the texts of a fault.
func (s *scene) expand(text string) string {
	replace := []string{"NS", s.ns.Name}
	for i, n := range s.cluster.Nodes {
		replace = append(replace, fmt.Sprintf("NODE-%d", i+1), n.Name)
	}
	return strings.NewReplacer(replace...).Replace(text)
}

// serve starts the servers of the pods.
func serve(c *plugin.Cluster) error {
	for _, p := range slices.Concat(c.Lab.Pods, c.Lab.RemotePods, c.Lab.ThirdPods) {
		if err := p.ServeAll(targetPort); err != nil {
			return err
		}
	}
	return nil
}
