package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/bundle/archive"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
)

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
