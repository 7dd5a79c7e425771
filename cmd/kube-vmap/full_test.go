package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
)

// TestFullDiskIsReportedInOneLine has a process that answers, and a full disk.
func TestFullDiskIsReportedInOneLine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket) //nolint:noctx // it listens immediately
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"source":"daemon","services":[{"namespace":"default","name":"web"}]}`)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for want, tc := range map[string]struct {
		args []string
		code int
	}{
		"kube-vmap: copy the answer from " + socket + ": write /dev/full: no space left on device\n": {[]string{"render"}, 1},
		"kube-vmap: write /dev/full: no space left on device\n":                                      {[]string{"diff"}, exit.Trouble},
		"kube-vmap: print services: write /dev/full: no space left on device\n":                      {[]string{"get", "svc"}, 1},
		"kube-vmap: print: write /dev/full: no space left on device\n":                               {[]string{"top"}, 1},
	} {
		var stderr bytes.Buffer
		if code := run(append(tc.args, "--status-socket", socket), full, &stderr); code != tc.code || !strings.HasSuffix(stderr.String(), want) {
			t.Errorf("%q: exit code %d, want %d; %q, want %q", tc.args, code, tc.code, &stderr, want)
		}
	}
}
