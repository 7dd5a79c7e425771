package serve

import (
	"fmt"
	"net"
	"net/http"

	"golang.org/x/sys/unix"

	"kube-vmap/sync/listen"
)

// rootOnly answers none but root, by what the kernel says of who is connected
// (SO_PEERCRED). That is also who may read the rules themselves.
func rootOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RemoteAddr != rootPeer {
			http.Error(w, "only root (uid 0) is answered; this is "+r.RemoteAddr, http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// peer is the user of the process at the other end of a Unix socket. As an address
// it goes where HTTP servers look for who asks.
type peer struct {
	uid   uint32
	known bool
}

// rootPeer is what the only one that is answered is called.
var rootPeer = peer{known: true}.String()

// Network implements [net.Addr].
func (peer) Network() string { return "unix" }

// String implements [net.Addr].
func (p peer) String() string {
	if !p.known {
		return "an unknown user"
	}
	return fmt.Sprintf("uid %d", p.uid)
}

// peers is a listener whose connections have a [peer] as their remote address.
type peers struct{ net.Listener }

// Accept implements [net.Listener].
func (l peers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return peerConn{conn, peerOf(conn)}, nil
}

// maxOthers is how many that are not root may be connected to a Unix socket, which
// tells them that they are not answered. One more closes the oldest.
const maxOthers = 8

// sorted is a listener that bounds connections of root and of others apart: nobody
// who gets no answer takes the place of one who does.
type sorted struct {
	net.Listener
	root, others *listen.ConnLimit
}

// Accept implements [net.Listener].
func (l sorted) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	bound := l.others
	if conn.RemoteAddr().String() == rootPeer {
		bound = l.root
	}
	return bound.Listener(accepted{l.Listener, conn}).Accept()
}

// accepted is a listener whose next connection is there already.
type accepted struct {
	net.Listener
	conn net.Conn
}

// Accept implements [net.Listener].
func (a accepted) Accept() (net.Conn, error) { return a.conn, nil }

// peerOf finds out who is connected.
func peerOf(conn net.Conn) (p peer) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return p
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) { // of what fails, nobody is known
		if of, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p = peer{of.Uid, true}
		}
	})
	return p
}

// peerConn is a connection with the one at its other end.
type peerConn struct {
	net.Conn
	peer peer
}

// RemoteAddr implements [net.Conn].
func (c peerConn) RemoteAddr() net.Addr { return c.peer }
