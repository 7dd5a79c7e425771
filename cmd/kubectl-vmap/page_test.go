package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/page"
	"kube-vmap/cmd/inspect/page/live"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
)

type noNodes struct{ live.Source }

func TestServeListensOnLoopbackWithANewToken(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		ctx, end := context.WithCancel(t.Context())
		in, out := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- serve(ctx, page.Config{Cluster: live.New(noNodes{})}, 0, out) }()
		line, err := bufio.NewReader(in).ReadString('\n')
		must(t, err)
		at, err := url.Parse(strings.TrimSpace(line))
		if err != nil || at.Hostname() != "127.0.0.1" || len(at.Path) < 22 || seen[at.Path] {
			t.Errorf("it prints %q: %v", line, err)
		}
		seen[at.Path] = true
		client := http.Client{Timeout: 5 * time.Second}
		r, err := client.Get(at.String())
		must(t, err)
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("the printed URL answers %s", r.Status)
		}
		end()
		if err := <-done; err != nil {
			t.Errorf("at the end: %v", err)
		}
	}
}

// TestPageWaitsWhileANodeObserves has a node that observes for its findings.
func TestPageWaitsWhileANodeObserves(t *testing.T) {
	t.Parallel()
	slow := func(_ *http.Request, _ []string, stdout, _ io.Writer) int {
		<-time.After(time.Second)
		_, _ = io.WriteString(stdout, `{"schema":1,"findings":[{"reason":"Refuses"}]}`)
		return 0
	}
	c := nodestest.New(t, map[string]nodestest.Program{"node-1": slow}).Cluster(t, cluster.Config{Timeout: 500 * time.Millisecond})
	list, err := c.Nodes(t.Context())
	must(t, err)
	if found, err := (execSource{c}).Findings(t.Context(), list[0]); err != nil || len(found) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}
