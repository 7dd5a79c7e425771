// Package faults has faults of a cluster that users report, and the command of kubectl vmap that finds
// each.
package faults

import (
	"fmt"
	"slices"
	"strings"
	stdsync "sync"
	"testing"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/eventually"
)

func TestMain(m *testing.M) { clustertest.Main(m, built.Plugin) }

// TestOneCommandFindsEachFault sets up all faults in one cluster, in a namespace each,
// checks with packets that they are there, and runs the command of each.
func TestOneCommandFindsEachFault(t *testing.T) {
	c := plugin.New(t, podsPerNode)
	for _, p := range slices.Concat(c.Lab.Pods, c.Lab.RemotePods, c.Lab.ThirdPods) {
		clustertest.Must(t, p.ServeAll(targetPort))
	}
	scenes := make([]*scene, len(faults))
	last, gone := len(faults)-2, len(faults)-1
	var setting stdsync.WaitGroup
	for i := range faults[:last] {
		scenes[i] = newScene(t, c, i+1)
		setting.Go(func() { faults[i].set(scenes[i]) })
	}
	setting.Wait()
	if t.Failed() {
		return
	}
	healthy := newScene(t, c, 0)
	healthy.web(0, 1, 2)
	healthy.service(3)
	c.AwaitRules(t)
	scenes[last] = newScene(t, c, last+1)
	faults[last].set(scenes[last])
	t.Run("together", func(t *testing.T) {
		t.Run("no fault", func(t *testing.T) {
			t.Parallel()
			out := c.Kubectl(t, append([]string{"vmap"}, strings.Fields(healthy.expand(problems))...)...)
			if out.Code != 0 || strings.Contains(out.Stdout, "web") {
				t.Error(out)
			}
		})
		for i, f := range faults[:gone] {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				f.isFound(t, scenes[i])
			})
		}
	})
	t.Run(faults[gone].name, func(t *testing.T) {
		s := newScene(t, c, gone+1)
		faults[gone].set(s)
		faults[gone].isFound(t, s)
	})
}

// isFound runs the command in a namespace with the fault, and checks its output.
func (f fault) isFound(t *testing.T, s *scene) {
	t.Helper()
	eventually.Succeeds(t, "packets show the fault", func() error { return f.fails(s) })
	out := s.cluster.Kubectl(t, append([]string{"vmap"}, strings.Fields(s.expand(f.command))...)...)
	t.Log(out)
	if f.without != "" && strings.Contains(out.Stdout, f.without) {
		t.Errorf("the output has %q", f.without)
	}
	for _, want := range f.want {
		if !slices.ContainsFunc(strings.Split(s.expand(want), " | "), func(one string) bool {
			return strings.Contains(out.Stdout, one)
		}) {
			t.Errorf("the output lacks %q", s.expand(want))
		}
	}
}

// expand replaces names in the texts of a fault.
func (s *scene) expand(text string) string {
	replace := []string{"NS", s.ns.Name}
	for i, n := range s.cluster.Nodes {
		replace = append(replace, fmt.Sprintf("NODE-%d", i+1), n.Name)
	}
	return strings.NewReplacer(replace...).Replace(text)
}
