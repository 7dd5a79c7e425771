package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
	"kube-vmap/sync/follow/listen/listentest"
)

// open listens on a path until the test's end.
func open(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := listenUnix(t.Context(), "unix", path)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestSocketFileIsForItsOwnerAndRemovedOnClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.sock")
	l := open(t, path)
	there, err := os.Stat(path)
	if err != nil || there.Mode() != os.ModeSocket|ownerOnly {
		t.Errorf("it is %v, %v", there.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after its end: %v", err)
	}
}

func TestOnlyStaleSocketsAreReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.sock")
	first := open(t, path)
	if _, err := listenUnix(t.Context(), "unix", path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("with a live one: %v", err)
	}
	// Like a killed process.
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, first.Close())
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

func TestOtherFilesAreNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.sock")
	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	if _, err := listenUnix(t.Context(), "unix", path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("it is listened on: %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("it became %q, %v", text, err)
	}
}

// serveStatus runs a status server until the test's end.
func serveStatus(t *testing.T, socket string, answer nodestatus.Source) *listentest.LogBuffer {
	t.Helper()
	log, text := logged()
	more := func(_ context.Context, w io.Writer) error { _, err := io.WriteString(w, "more"); return err }
	s := NewStatus(StatusConfig{Socket: socket, Answer: answer, Texts: map[string]Text{"/more": more}, Log: log})
	bound(t, s)
	return text
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root is answered, and this is not root")
	}
}

func TestSocketNamesAndPathsAreServed(t *testing.T) {
	needRoot(t)
	failure := errors.New("not now")
	answer := func(_ context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
		if q.Name == "bad" {
			return nil, failure
		}
		return &nodestatus.Document{Source: nodestatus.FromDaemon, Node: fmt.Sprint(q)}, nil
	}
	for _, socket := range []string{fmt.Sprintf("@kube-vmap-test-%d", os.Getpid()), filepath.Join(t.TempDir(), "s")} {
		serveStatus(t, socket, answer)
		for _, q := range []nodestatus.Query{{}, {Namespace: "a b&c", Name: "web"}, {Brief: true}} {
			d, err := (client.Client{Socket: socket}).Get(t.Context(), q)
			if err != nil || d.Node != fmt.Sprint(q) {
				t.Errorf("%s %+v: got %+v, %v", socket, q, d, err)
			}
		}
		if _, err := (client.Client{Socket: socket}).Get(t.Context(), nodestatus.Query{Name: "bad"}); err == nil || !strings.Contains(err.Error(), "not now") {
			t.Errorf("an answer that fails: %v", err)
		}
		more, err := client.Client{Socket: socket}.Ask(t.Context(), "/more")
		must(t, err)
		_ = more.Close()
		if _, err := (client.Client{Socket: socket}).Ask(t.Context(), "/other"); err == nil || !strings.Contains(err.Error(), "not served") {
			t.Errorf("what there is not: %v", err)
		}
	}
}

func TestOnlyRootIsAnswered(t *testing.T) {
	h := rootOnly(content("text/plain", "secret"))
	for from, want := range map[string]int{
		rootPeer.String(): http.StatusOK, "uid 1000": http.StatusForbidden, "": http.StatusForbidden,
		unknownPeer.String(): http.StatusForbidden, "uid 1": http.StatusForbidden,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{RemoteAddr: from})
		if w.Code != want || (want != http.StatusOK) == strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%q is answered %d: %s", from, w.Code, w.Body)
		}
	}
}

func TestSocketErrorIsAWarning(t *testing.T) {
	log, text := logged()
	path := filepath.Join(t.TempDir(), "none", "s")
	s := NewStatus(StatusConfig{Socket: path, Log: log})
	stop := run(t, s)
	listentest.Eventually(t, "it is logged", func() bool { return strings.Contains(text.String(), "cannot serve") })
	if err := stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if got := text.String(); !strings.Contains(got, "level="+slog.LevelWarn.String()) || strings.Contains(got, slog.LevelError.String()) {
		t.Errorf("it is logged as\n%s", got)
	}
}

// dialAs connects to a socket as another user.
func dialAs(t *testing.T, uid int, socket string) net.Conn {
	t.Helper()
	conn := statustest.AsUser(t, uid, func() (net.Conn, error) {
		return net.Dial("unix", socket) //nolint:noctx // a local socket answers immediately
	})
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestOtherUsersDoNotUseRootsConnections(t *testing.T) {
	needRoot(t)
	socket := fmt.Sprintf("@kube-vmap-places-%d", os.Getpid())
	serveStatus(t, socket, func(context.Context, nodestatus.Query) (*nodestatus.Document, error) {
		return &nodestatus.Document{}, nil
	})
	root := dialAs(t, 0, socket)
	others := make([]net.Conn, maxStatus+maxOthers)
	for i := range others {
		others[i] = dialAs(t, 65534, socket)
	}
	if _, err := (client.Client{Socket: socket}).Get(t.Context(), nodestatus.Query{}); err != nil { // after all of them
		t.Errorf("root gets no response: %v", err)
	}
	_ = root.SetDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := root.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("root's connection: %v", err)
	}
	_ = others[0].SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := others[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest of the others: %v", err)
	}
	last := others[len(others)-1]
	_, _ = io.WriteString(last, "GET /status HTTP/1.0\r\n\r\n")
	if text, err := io.ReadAll(last); err != nil || !strings.Contains(string(text), "403") || !strings.Contains(string(text), "only root (uid 0)") {
		t.Errorf("the last of the others gets %q, %v", text, err)
	}
}

func TestRootConnectionsAreLimited(t *testing.T) {
	needRoot(t)
	socket := filepath.Join(t.TempDir(), "s")
	serveStatus(t, socket, nil)
	first := dialAs(t, 0, socket)
	for range maxStatus {
		dialAs(t, 0, socket)
	}
	_ = first.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the oldest of %d: %v", maxStatus+1, err)
	}
}
