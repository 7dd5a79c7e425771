package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/top/toptest"
	"kube-vmap/cmd/kubectl-vmap/nodes"
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
	out, err := runTop(t, map[string]nodestest.Program{"node-1": busy(), "node-2": busy(), "node-3": refuses, "node-4": nil})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 nodes", "3 Services", "180.0 connections/s", "72 active", "\nnode-3: ", "no kube-vmap answers", "\nnode-4: "} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q:\n%s", want, out)
		}
	}
}

func TestTopOfOneNode(t *testing.T) {
	out, err := runTop(t, map[string]nodestest.Program{"node-1": busy(), "node-2": refuses}, "--node", "node-1")
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

func TestFailingNodesAreAskedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := topSource{interval: 2 * time.Second, failing: map[string]failure{}}
		n := nodes.Node{Name: "dead", Pod: "one"}
		for _, want := range []int{4, 8, 16, 32, 64, 120, 120} {
			f := s.fail(n, io.EOF)
			if got := time.Until(f.next); got != time.Duration(want)*time.Second {
				t.Errorf("asked again after %s, want %d s", got, want)
			}
			<-time.After(time.Until(f.next))
		}
		if got := s.fail(n, io.EOF).describe(n).Error(); got != "dead: not answering for 6m4s: EOF" {
			t.Error(got)
		}
		n.Pod = "another"
		if f := s.fail(n, io.EOF); f.count != 1 || f.describe(n).Error() != "dead: EOF" {
			t.Errorf("the new pod has the failures of the old one: %+v", f)
		}
	})
}
