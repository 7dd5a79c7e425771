package nodestest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// exec runs the program of a pod.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !s.allowed(w, "pods/exec", name) {
		return
	}
	program := s.programs[strings.TrimPrefix(name, "kube-vmap-")]
	args := r.URL.Query()["command"]
	if program == nil || len(args) == 0 || args[0] != "/kube-vmap" || r.URL.Query().Get("container") != "kube-vmap" {
		http.Error(w, "no such program", http.StatusInternalServerError)
		return
	}
	run := func(stdout, stderr, status io.Writer) {
		ended := exitStatus(program(r, args[1:], stdout, stderr))
		if s.BrokenExec != "" {
			ended = metav1.Status{Status: metav1.StatusFailure, Message: s.BrokenExec}
		}
		_ = json.NewEncoder(status).Encode(ended) // the client notices
	}
	switch {
	case r.Header.Get("Upgrade") != "websocket":
		serveSPDY(w, r, run)
	case s.NoWebSocket:
		http.Error(w, "no WebSockets here", http.StatusBadRequest)
	default:
		serveWebSocket(w, r, run)
	}
}

// exitStatus is how the exit code reaches the client.
func exitStatus(code int) metav1.Status {
	if code == 0 {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
			Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(code),
		}}},
	}
}

// serveWebSocket runs a program over WebSocket: each message begins with its channel.
func serveWebSocket(w http.ResponseWriter, r *http.Request, run func(stdout, stderr, status io.Writer)) {
	upgrader := websocket.Upgrader{Subprotocols: []string{remotecommand.StreamProtocolV5Name}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }() // the client has read all
	c := &channels{conn: conn}
	run(channel{c, remotecommand.StreamStdOut}, channel{c, remotecommand.StreamStdErr}, channel{c, remotecommand.StreamErr})
	_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
}

// channels are the streams over one connection.
type channels struct {
	mu   sync.Mutex
	conn *websocket.Conn
}

type channel struct {
	*channels
	number byte
}

// Write implements [io.Writer].
func (c channel) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := p; len(rest) > 0; {
		part := rest[:min(len(rest), 16<<10)]
		if err := c.conn.WriteMessage(websocket.BinaryMessage, append([]byte{c.number}, part...)); err != nil {
			return 0, err
		}
		rest = rest[len(part):]
	}
	return len(p), nil
}

// serveSPDY runs a program over SPDY: the client opens a stream for each channel.
func serveSPDY(w http.ResponseWriter, r *http.Request, run func(stdout, stderr, status io.Writer)) {
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return
	}
	opened := make(chan httpstream.Stream, 3)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		select {
		case opened <- s:
			return nil
		default:
			return errors.New("too many streams")
		}
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }() // the client has read all
	streams := map[string]io.Writer{}
	for range cap(opened) {
		s := <-opened
		defer s.Close()
		streams[s.Headers().Get("streamType")] = s
	}
	run(streams["stdout"], streams["stderr"], streams["error"])
}
