package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus/client"
)

// TestLogsDoNotWaitForTheLoop has a process whose loop hangs, for which its status waits.
func TestLogsDoNotWaitForTheLoop(t *testing.T) {
	socket := fmt.Sprintf("@kube-vmap-test-%d", time.Now().UnixNano())
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == client.Path {
			<-r.Context().Done()
		}
	})}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	answered := []string{"config.yaml", "recent.log", "info.log", "metrics.txt"}
	var failed []string
	for _, p := range parts(client.Client{Socket: socket}, "") {
		ctx, cancel := context.WithCancel(t.Context())
		if !slices.Contains(answered, p.Name) { // these have all the time that they need
			time.AfterFunc(time.Second, cancel)
		}
		if err := p.Write(ctx, io.Discard); err != nil {
			failed = append(failed, p.Name)
		}
		cancel()
	}
	for _, name := range answered {
		if slices.Contains(failed, name) {
			t.Errorf("%s waits for the loop, as %q", name, failed)
		}
	}
	if !slices.Contains(failed, statusPart) {
		t.Errorf("only %q fail", failed)
	}
}

// TestStoppedProcessIsAskedOnce has a socket without a server.
func TestStoppedProcessIsAskedOnce(t *testing.T) {
	socket := fmt.Sprintf("@kube-vmap-test-stopped-%d", os.Getpid())
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var asked, spared int
	for _, p := range parts(client.Client{Socket: socket, Timeout: 50 * time.Millisecond}, "") {
		switch err := p.Write(t.Context(), io.Discard); {
		case errors.Is(err, client.ErrUnresponsive) && !strings.HasPrefix(err.Error(), "not requested: "):
			asked++
		case errors.Is(err, client.ErrUnresponsive):
			spared++
		}
	}
	if asked != 1 || spared != 7 {
		t.Errorf("%d requests have no response, %d were not sent, want 1 and 7", asked, spared)
	}
}

// TestPartsArriveOneByOne has a part that may take long: the one before is written by then.
func TestPartsArriveOneByOne(t *testing.T) {
	var out bytes.Buffer
	before := 0
	list := []part{
		{"a.txt", func(_ context.Context, w io.Writer) error { _, err := io.WriteString(w, "x"); return err }},
		{"b.txt", func(context.Context, io.Writer) error { before = out.Len(); return nil }},
	}
	if _, err := writeParts(t.Context(), &out, list, time.Unix(1, 0)); err != nil || before < 50 {
		t.Errorf("%d bytes come before the second part, %v", before, err)
	}
}
