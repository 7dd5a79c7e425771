package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/top/toptest"
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

func runTop(t *testing.T, programs map[string]nodestest.Program, args ...string) (out string, err error) {
	t.Helper()
	out, stderr, code := vmap(t, nodestest.New(t, programs), append([]string{"top"}, args...)...)
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
