package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
)

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
		t.Errorf("beside them, root is answered: %v", err)
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
