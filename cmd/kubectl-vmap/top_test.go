package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/top/toptest"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
)

// busy is a node whose Services get more connections with every query.
func busy() nodestest.Program {
	after := 0.0
	return func(_ *http.Request, _ []string, stdout, _ io.Writer) int {
		_ = toptest.Three(after).Write(stdout)
		after += 10
		return 0
	}
}

func refuses(_ *http.Request, _ []string, _, stderr io.Writer) int {
	_, _ = fmt.Fprint(stderr, "no kube-vmap answers\n")
	return 1
}

// runTop runs the command with the nodes.
func runTop(t *testing.T, programs map[string]nodestest.Program, args ...string) (out string, err error) {
	t.Helper()
	out, stderr, code := nodestest.New(t, programs).Command(t, topCommand, args...)
	if code != 0 {
		err = errors.New(stderr)
	}
	return out + stderr, err
}

func TestTopAddsUpNodesAndNamesThoseThatFail(t *testing.T) {
	out, err := runTop(t, map[string]nodestest.Program{"node-1": busy(), "node-2": busy(), "a": nil, "b": nil, "c": nil, "node-3": refuses})
	must(t, err)
	for _, want := range []string{"2 nodes", "3 Services", "180.0 connections/s", "72 active", "\nnode-3: ", "no kube-vmap answers", "\n3 nodes without kube-vmap: a, b, c\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q:\n%s", want, out)
		}
	}
}

func TestTopOfOneNode(t *testing.T) {
	out, err := runTop(t, map[string]nodestest.Program{"node-1": busy(), "node-2": refuses}, "--node", "node-1,node-1")
	if err != nil || !strings.Contains(out, "1 node,") || !strings.Contains(out, " 90.0 connections/s") || strings.Contains(out, "node-2") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTopFailsIfNoNodeAnswers(t *testing.T) {
	out, err := runTop(t, map[string]nodestest.Program{"node-1": refuses, "node-2": refuses})
	if err == nil || !strings.Contains(err.Error(), "no node answers") || !strings.Contains(err.Error(), "no kube-vmap answers") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFailingNodesAreLeftAlone has a node that costs its time-out, for which others would wait.
func TestFailingNodesAreLeftAlone(t *testing.T) {
	asked := 0
	counts := func(r *http.Request, args []string, out, errs io.Writer) int {
		asked++
		return refuses(r, args, out, errs)
	}
	server := nodestest.New(t, map[string]nodestest.Program{"node-1": busy(), "node-2": counts})
	s := topSource{chosen: server.Nodes(t, cluster.Config{}), failing: map[string]failure{}}
	for range 3 {
		if a, err := s.query(t.Context(), nodestatus.Query{}); err != nil || len(a.Documents) != 1 || len(a.Failed) != 1 || !strings.HasPrefix(a.Failed[0], "node-2: ") {
			t.Errorf("%+v, %v", a, err)
		}
	}
	for i, change := range []func(f *failure){
		func(f *failure) { f.at = f.at.Add(-retryPeriod) },
		func(f *failure) { f.pod = "replaced" },
	} {
		f := s.failing["node-2"]
		change(&f)
		s.failing["node-2"] = f
		if _, err := s.query(t.Context(), nodestatus.Query{}); err != nil || asked != 2+i {
			t.Errorf("it is asked %d times, %v", asked, err)
		}
	}
	server = nodestest.New(t, map[string]nodestest.Program{"node-1": nil, "node-2": counts})
	s.chosen = server.Nodes(t, cluster.Config{})
	if _, err := s.query(t.Context(), nodestatus.Query{}); err == nil || asked != 4 {
		t.Errorf("without others, it is asked %d times, %v", asked, err)
	}
}

// TestNodesWaitForNoneThatIsNotReady has one node at a time, the first one silent: it takes all the
// time of a query, unless it is asked last. What was not asked has not failed.
func TestNodesWaitForNoneThatIsNotReady(t *testing.T) {
	silent := func(r *http.Request, _ []string, _, _ io.Writer) int { <-r.Context().Done(); return 1 }
	for _, ready := range []bool{false, true} {
		server := nodestest.New(t, map[string]nodestest.Program{"a": silent, "b": busy()})
		server.ChangePod = func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Ready = ready || p.Spec.NodeName == "b"
		}
		s := topSource{chosen: server.Nodes(t, cluster.Config{Concurrency: 1}), failing: map[string]failure{}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		a, err := s.query(ctx, nodestatus.Query{})
		cancel()
		if _, failed := s.failing["b"]; failed || !ready && len(a.Documents) != 1 {
			t.Errorf("if a is ready (%t): %+v, %v, failing %v", ready, a, err, s.failing)
		}
	}
}
