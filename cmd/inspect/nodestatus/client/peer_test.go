package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

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
		d, err := Get(t.Context(), name, nodestatus.Query{})
		switch {
		case trusted && (err != nil || d.Node != "a fake"):
			t.Errorf("of uid %d: %+v, %v", uid, d, err)
		case !trusted && (!errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "a program of uid 65534") || strings.Contains(err.Error(), "\n")):
			t.Errorf("of uid %d: %+v, %v", uid, d, err)
		}
	}
}
