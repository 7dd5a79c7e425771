package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-vmap/cmd/inspect/bundle/archive"
	"kube-vmap/cmd/inspect/docstest"
	"kube-vmap/cmd/inspect/page"
	"kube-vmap/cmd/inspect/page/live"
	"kube-vmap/cmd/kubectl-vmap/cluster"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
)

// TestNoAPIServerMeansNoNames has an API server that does not exist.
func TestNoAPIServerMeansNoNames(t *testing.T) {
	f := cluster.NewFlags()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(flags)
	must(t, flags.Set("server", "https://127.0.0.1:1"))
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	c := completer{f}
	start := time.Now()
	if got, d := c.objects("node/")(cmd, nil, ""); len(got) > 0 || d != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("names %q, %v", got, d)
	}
	if took := time.Since(start); took > 2*completionTimeout {
		t.Errorf("it took %s", took)
	}
}

func TestKindsAreCompletedFirst(t *testing.T) {
	got, d := completer{cluster.NewFlags()}.objects("pod/", "deploy/", "ds/")(&cobra.Command{}, nil, "d")
	if len(got) != 2 || got[0] != "deploy/" || d&cobra.ShellCompDirectiveNoSpace == 0 {
		t.Errorf("%q, %v", got, d)
	}
	if got, _ := (completer{cluster.NewFlags()}).objects("pod/", "ds/")(&cobra.Command{}, nil, "svc/x"); got != nil {
		t.Errorf("a kind that is not one of the flag's: %q", got)
	}
}

func TestCommandsInDocumentsAreValid(t *testing.T) {
	docstest.Check(t, "../..", "kubectl vmap", 15, func() *cobra.Command { return rootCommand(io.Discard, io.Discard) })
}

// TestEmptyArchiveIsNoAnswer has a connection that ends early: servers may report success.
func TestEmptyArchiveIsNoAnswer(t *testing.T) {
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": nodestest.Prints("")})
	if _, stderr, code := vmap(t, s, "bundle", "-o", "-"); code != 1 || !strings.HasPrefix(stderr, "node-1: read the node's archive: ") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestNodeMayCollectForLongerThanItsTimeOut has a node on which a part takes long.
func TestNodeMayCollectForLongerThanItsTimeOut(t *testing.T) {
	t.Parallel()
	slow := func(_ *http.Request, _ []string, stdout, _ io.Writer) int {
		<-time.After(time.Second)
		_, _ = io.WriteString(stdout, packed(t, map[string]string{archive.Folder + "drift.txt": ""}))
		return 0
	}
	s := nodestest.New(t, map[string]nodestest.Program{"node-1": slow})
	if _, stderr, code := vmap(t, s, "bundle", "-o", "-", "--node-timeout=200ms"); code != 0 {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestArchiveOfNodeIsLimited reads a short archive that unpacks to more than is allowed.
func TestArchiveOfNodeIsLimited(t *testing.T) {
	var text bytes.Buffer
	packed, _ := gzip.NewWriterLevel(&text, gzip.BestSpeed)
	zeros := make([]byte, 1<<20)
	for range 4 + maxUnpacked>>20 {
		var file bytes.Buffer
		w := tar.NewWriter(&file)
		err := w.WriteHeader(&tar.Header{Name: archive.Folder + "drift.txt", Mode: 0o644, Size: int64(len(zeros))})
		if err == nil {
			_, err = w.Write(zeros)
		}
		if err == nil {
			err = w.Flush()
		}
		if err == nil {
			_, err = packed.Write(file.Bytes())
		}
		must(t, err)
	}
	must(t, packed.Close())
	writeErr, readErr := (&bundle{Writer: archive.NewWriter(io.Discard, time.Now())}).copy("node-1", &text)
	if writeErr != nil || readErr == nil || !strings.Contains(readErr.Error(), "unpacks to more than 512 MiB") {
		t.Errorf("%v, %v", writeErr, readErr)
	}
}

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
