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
)

// noNodes is a source without nodes.
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
