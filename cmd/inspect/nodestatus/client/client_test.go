package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
)

// listenAs listens on an abstract name as another user.
func listenAs(t *testing.T, uid int, name string) net.Listener {
	t.Helper()
	l := statustest.AsUser(t, uid, func() (net.Listener, error) {
		return net.Listen("unix", name) //nolint:noctx // an abstract name exists immediately
	})
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestSocketOfAnotherUserIsNotTrusted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to be another user takes root")
	}
	for uid, trusted := range map[int]bool{0: true, 65534: false} {
		name := fmt.Sprintf("@kube-vmap-peer-%d-%d", os.Getpid(), uid)
		l := listenAs(t, uid, name)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // its only client is this test
			_, _ = io.WriteString(w, `{"node":"a fake"}`)
		})}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
		d, err := Client{Socket: name}.Get(t.Context(), nodestatus.Query{})
		switch {
		case trusted && (err != nil || d.Node != "a fake"):
			t.Errorf("of uid %d: %+v, %v", uid, d, err)
		case !trusted && (!errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "a program of uid 65534") || strings.Contains(err.Error(), "\n")):
			t.Errorf("of uid %d: %+v, %v", uid, d, err)
		}
	}
}

// TestStoppedProcessIsReported has a socket without a server: the kernel accepts the
// connection.
func TestStoppedProcessIsReported(t *testing.T) {
	for _, socket := range []string{fmt.Sprintf("@kube-vmap-stopped-%d", os.Getpid()), filepath.Join(t.TempDir(), "s")} {
		l, err := net.Listen("unix", socket) //nolint:noctx // it listens immediately
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, err = Client{Socket: socket, Timeout: 50 * time.Millisecond}.Get(t.Context(), nodestatus.Query{})
		if !errors.Is(err, ErrUnresponsive) || !strings.Contains(err.Error(), "stopped") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", socket, err)
		}
	}
}

// TestProcessThatStopsWithinAnAnswerIsNotWaitedFor has an answer that begins and does not end.
func TestProcessThatStopsWithinAnAnswerIsNotWaitedFor(t *testing.T) {
	socket := fmt.Sprintf("@kube-vmap-begun-%d", os.Getpid())
	l, err := net.Listen("unix", socket) //nolint:noctx // it listens immediately
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // its only client is this test
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	var text strings.Builder
	err = Client{Socket: socket, Timeout: time.Second}.Copy(t.Context(), "/", &text)
	var late net.Error
	if text.String() != "begun" || !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("%q, %v", text.String(), err)
	}
}

func TestErrorsGiveTheNextStep(t *testing.T) {
	for socket, want := range map[string]string{
		fmt.Sprintf("@none-%d", os.Getpid()): "no kube-vmap answers on @none-" + fmt.Sprint(os.Getpid()) + " in this network namespace: does kube-vmap run? Run this in its pod",
		filepath.Join(t.TempDir(), "none"):   "here: does kube-vmap run?",
		"":                                   "no kube-vmap answers: --status-socket is empty, which disables the socket; give the name or path",
	} {
		_, err := Client{Socket: socket}.Get(t.Context(), nodestatus.Query{})
		if !errors.Is(err, ErrNotRunning) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%q: %v, want one line with %q", socket, err, want)
		}
	}
}
