package cluster_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/daemon"
	"kube-vmap/integration/cluster/plane"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/eventually"
)

// A proxyWalk is a node on which both proxies start and end at random while a Service moves from one
// endpoint to the other.
type proxyWalk struct {
	*oneNode
	to               traffic.Target
	random           *rand.Rand
	kubeconfig, mode string
	program          string         // kube-proxy
	other            *daemon.Daemon // nil if it does not run
	ours             bool           // whether kube-vmap runs
	tables           bool           // whether it has tables
	serving          int            // which pod
}

// TestRandomWalkOfBothProxiesLosesNoConnection starts and ends both proxies in a random order,
// with connections all the time. KUBE_VMAP_WALK_SEED changes it.
func TestRandomWalkOfBothProxiesLosesNoConnection(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := prepareOneNode(t, clustertest.Alone, 2) // kube-proxy is slow with Services of other tests
			program, err := plane.Program("kube-proxy")
			clustertest.Must(t, err)
			seed, err := strconv.ParseUint(cmp.Or(os.Getenv("KUBE_VMAP_WALK_SEED"), "1"), 10, 64)
			clustertest.Must(t, err)
			w := &proxyWalk{
				oneNode: c, to: c.manualService(t, "web", c.Lab.Pods[0]), random: rand.New(rand.NewPCG(seed, uint64(len(mode)))), //nolint:gosec // repeatable
				kubeconfig: c.Kubeconfig(t, c.Server), mode: mode, program: program,
			}
			w.startTheirs(t)
			crowd := traffic.Start(c.clients...)
			asked := crowd.Add(w.to)
			clustertest.Must(t, asked.Await(clustertest.Context(t)))
			for range 12 {
				w.step(t)
			}
			asked.Remove()
			questions, err := crowd.Stop()
			t.Logf("seed %d: %d questions", seed, questions)
			clustertest.Must(t, err)
		})
	}
}

// step does one of what is possible now. Afterwards every client is answered by the pod that is
// the endpoint: after a move soon, and otherwise immediately.
func (w *proxyWalk) step(t *testing.T) {
	t.Helper()
	type way struct {
		name     string
		possible bool
		do       func(*testing.T)
	}
	// At a move kube-proxy deletes UDP flows, also those whose answer is on its way.
	follows := w.ours && w.other == nil
	ways := []way{
		{"move", follows, w.move},
		{"move", follows, w.move},
		{"start kube-proxy", w.other == nil, w.startTheirs},
		{"end kube-proxy", w.other != nil, w.endTheirs},
		{"start kube-vmap", !w.ours, w.startOurs},
		{"stop kube-vmap", w.ours, func(t *testing.T) { t.Helper(); clustertest.Must(t, w.proxy.Stop()); w.ours = false }},
		{"kill kube-vmap", w.ours, func(*testing.T) { w.proxy.Kill(); w.ours = false }},
		{"cleanup", !w.ours && w.tables && w.other != nil, w.cleanUp},
	}
	chosen := ways[w.random.IntN(len(ways))]
	for !chosen.possible {
		chosen = ways[w.random.IntN(len(ways))]
	}
	t.Log(chosen.name)
	chosen.do(t)
	checkAnswered(t, w.clients, w.to, w.Lab.Pods[w.serving].Name)
}

// move moves the Service to the other pod, and waits until all clients get there.
func (w *proxyWalk) move(t *testing.T) {
	t.Helper()
	w.serving = 1 - w.serving
	pod := w.Lab.Pods[w.serving]
	w.setEndpoints(t, "web", pod)
	for _, from := range w.clients {
		clustertest.Must(t, from.AwaitAnswers(clustertest.Context(t), w.to, pod.Name))
	}
}

// startTheirs waits until its rules are those of the API, and not from an earlier run, unless
// kube-vmap runs, which may suspend or remove them.
func (w *proxyWalk) startTheirs(t *testing.T) {
	t.Helper()
	w.other = w.startKubeProxy(t, w.program, w.mode, w.kubeconfig, otherPorts...)
	if w.ours {
		return
	}
	clustertest.Must(t, awaitSync(t, w.other))
}

func (w *proxyWalk) endTheirs(t *testing.T) {
	t.Helper()
	w.other.Kill()
	w.other = nil
}

// startOurs waits until it can be stopped, and its rules are in the kernel, which may have those
// of an earlier run. Beside kube-proxy it is not ready.
func (w *proxyWalk) startOurs(t *testing.T) {
	t.Helper()
	w.runProxy(t, w.kubeconfig, "--probation="+[]string{"1s", "1h"}[w.random.IntN(2)])
	w.ours, w.tables = true, true
	clustertest.Must(t, w.proxy.Await(clustertest.Context(t), "an answer", func() error {
		_, _, err := w.proxy.Get(daemon.HealthURL)
		return err
	}))
	w.proxy.AwaitTruth(t)
}

// cleanUp returns the node to a kube-proxy that has just started.
func (w *proxyWalk) cleanUp(t *testing.T) {
	t.Helper()
	w.endTheirs(t)
	w.startTheirs(t)
	eventually.Succeeds(t, "the cleanup", func() error {
		out, err := w.Lab.Node.Command(clustertest.Context(t), clustertest.Program(t), "cleanup").CombinedOutput()
		var ended *exec.ExitError
		if err != nil && (!errors.As(err, &ended) || ended.ExitCode() != exit.Refused) {
			t.Fatalf("cleanup: %v\n%s", err, out)
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	w.tables = false
}
