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
	"testing/synctest"
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

// TestPausesOfAnAnswerAreLimited has an answer that takes longer than any timeout, and then stops.
func TestPausesOfAnAnswerAreLimited(t *testing.T) {
	for _, bytes := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			p, err := newTimedConn(here, defaultAckTimeout)
			if err != nil {
				t.Fatal(err)
			}
			limit := defaultAckTimeout
			for range bytes {
				go func() {
					<-time.After(limit - 1) // on the clock of the bubble
					_, _ = there.Write([]byte{1})
				}()
				if _, err := p.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				limit = idleTimeout
			}
			start := time.Now()
			_, err = p.Read(make([]byte, 1))
			if took := time.Since(start); took != limit || !errors.Is(err, map[bool]error{true: ErrUnresponsive, false: os.ErrDeadlineExceeded}[bytes == 0]) {
				t.Errorf("after %d bytes it is waited for %s, want %s: %v", bytes, took, limit, err)
			}
		})
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
		_, err = Client{Socket: socket, AckTimeout: 50 * time.Millisecond}.Get(t.Context(), nodestatus.Query{})
		if !errors.Is(err, ErrUnresponsive) || !strings.Contains(err.Error(), "stopped") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", socket, err)
		}
	}
}

// TestBusyProcessIsWaitedFor has a process that takes longer than the timeout of the
// acknowledgement.
func TestBusyProcessIsWaitedFor(t *testing.T) {
	t.Parallel()
	const sign = 3 * time.Second // in which a busy machine acknowledges a request
	socket := fmt.Sprintf("@kube-vmap-busy-%d", os.Getpid())
	l, err := net.Listen("unix", socket) //nolint:noctx // it listens immediately
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: AckRequests(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // its only client is this test
		<-time.After(2 * sign)
		_, _ = io.WriteString(w, `{"node":"busy"}`)
	}))}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	if d, err := (Client{Socket: socket, AckTimeout: sign}).Get(t.Context(), nodestatus.Query{}); err != nil || d.Node != "busy" {
		t.Errorf("%+v, %v", d, err)
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
