// Package client asks a running kube-vmap on its status socket, for its [nodestatus.Document]
// and for texts; see [PathRules] and the other paths. Its errors distinguish a process
// that does not run, one that cannot be trusted, and one that does not respond.
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/inspect/nodestatus"
)

// Paths on the status socket. [Path] serves the [nodestatus.Document]; the others are text.
const (
	Path        = "/status"
	PathRules   = "/rules"   // the rule set that the process wants, as nft text
	PathKernel  = "/kernel"  // what the kernel holds, in the same form
	PathDrift   = "/drift"   // how the kernel differs from the wanted rule set; empty if it does not
	PathConfig  = "/config"  // the configuration in use, as a file
	PathRecent  = "/recent"  // the last warnings and errors of the log
	PathInfo    = "/info"    // the last lines of the log from level Info on
	PathMetrics = "/metrics" // as on the metrics server
)

// DefaultSocket is where a process serves its status unless --status-socket says
// otherwise: an abstract name, which belongs to a network namespace, as the rules do.
const DefaultSocket = "@kube-vmap"

// AddSocketFlag adds the flag of commands that ask the running process.
func AddSocketFlag(f *pflag.FlagSet, socket *string) {
	f.StringVar(socket, "status-socket", DefaultSocket, "Unix `socket` of the running kube-vmap")
}

// ErrNotRunning is returned if no process that can be trusted serves the socket.
var ErrNotRunning = errors.New("no kube-vmap answers")

// ErrUnresponsive is returned if a process holds the socket but does not respond in time.
var ErrUnresponsive = errors.New("no response")

// Limits of an answer, and of a [nodestatus.Document], which is held in memory, in bytes.
const (
	maxAnswer   = 1 << 30
	maxDocument = 256 << 20
)

// Client asks the process that answers on a socket.
type Client struct {
	// Socket is "@name" or a path.
	Socket string
	// Timeout is how long the process may take until its answer begins; zero means [busyTimeout], or
	// [healthTimeout] for its health alone.
	Timeout time.Duration
}

const (
	// busyTimeout is long: a loop that programs everything answers afterwards.
	busyTimeout = 30 * time.Second
	// healthTimeout is less than kubectl vmap waits for a node, so it prints the reason.
	// Health does not wait for the loop.
	healthTimeout = 8 * time.Second
)

// Copy writes what the process serves at a path to w, with the errors of [Client.Get].
func (c Client) Copy(ctx context.Context, path string, w io.Writer) error {
	answer, err := c.Ask(ctx, path)
	if err != nil {
		return err
	}
	defer answer.Close()
	if _, err := io.Copy(w, answer); err != nil {
		return fmt.Errorf("copy the answer from %s: %w", c.Socket, err)
	}
	return nil
}

// Get requests a document. The error is [ErrNotRunning] if there is no process, or one of
// neither root nor this user, [fs.ErrPermission] if it does not answer this user, and
// [ErrUnresponsive] if it does not respond.
func (c Client) Get(ctx context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
	path := Path
	if q.Health {
		c.Timeout = cmp.Or(c.Timeout, healthTimeout)
	}
	if v := q.Values(); len(v) > 0 {
		path += "?" + v.Encode()
	}
	body, err := c.Ask(ctx, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	d := &nodestatus.Document{}
	if err := json.NewDecoder(http.MaxBytesReader(nil, body, maxDocument)).Decode(d); err != nil {
		return nil, fmt.Errorf("read the answer from %s: %w", c.Socket, err)
	}
	return d, nil
}

// Ask requests a path, with the errors of [Client.Get]. The caller closes the answer.
func (c Client) Ask(ctx context.Context, path string) (io.ReadCloser, error) {
	if c.Socket == "" {
		return nil, fmt.Errorf("%w: --status-socket is empty, which disables the socket; give the name or path that the "+
			"running kube-vmap has", ErrNotRunning)
	}
	c.Timeout = cmp.Or(c.Timeout, busyTimeout)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kube-vmap"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Socket, err)
	}
	answer, err := c.client().Do(r)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if answer.StatusCode == http.StatusOK {
		return http.MaxBytesReader(nil, answer.Body, maxAnswer), nil
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // only for the error
	text := strings.TrimSpace(string(body))
	switch answer.StatusCode {
	case http.StatusForbidden:
		return nil, fmt.Errorf("ask on %s: %s: %w", c.Socket, text, fs.ErrPermission)
	case http.StatusNotFound:
		return nil, fmt.Errorf("ask on %s for %s: not served; is the running kube-vmap of another version?", c.Socket, path)
	}
	return nil, fmt.Errorf("ask on %s: %s: %s", c.Socket, answer.Status, text)
}

func (c Client) client() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
		if err != nil {
			return nil, err
		}
		if err := checkPeer(conn, c.Socket); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
	return &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, ResponseHeaderTimeout: c.Timeout},
		Timeout:   2 * c.Timeout, // it may be stopped while it answers, which it does for 30 s at most
	}
}

// checkPeer returns an error unless root or this user listens on the socket (SO_PEERCRED,
// unix(7)): any user can take an abstract name.
func checkPeer(conn net.Conn, socket string) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var of *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { of, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("find the owner of the socket: %w", err)
	}
	if of.Uid == 0 || int64(of.Uid) == int64(os.Geteuid()) {
		return nil
	}
	return fmt.Errorf("%w on %s: a program of uid %d holds the socket, and is not trusted", ErrNotRunning, socket, of.Uid)
}

func (c Client) explain(ctx context.Context, err error) error {
	var inner *url.Error
	late := errors.As(err, &inner) && inner.Timeout() && ctx.Err() == nil // or the backlog is full (EAGAIN)
	if inner != nil {
		err = inner.Err
	}
	switch {
	case errors.Is(err, ErrNotRunning):
		return err
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		place := "here"
		if strings.HasPrefix(c.Socket, "@") {
			place = "in this network namespace"
		}
		return fmt.Errorf("%w on %s %s: does kube-vmap run? Run this in its pod (kubectl exec), or on the node (nsenter "+
			"--net=/proc/1/ns/net)",
			ErrNotRunning, c.Socket, place)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("ask on %s: only root may: %w", c.Socket, fs.ErrPermission)
	case late:
		return fmt.Errorf("%w on %s within %s: the process that holds it is stopped, gets no processor time or waits for "+
			"the kernel (ps shows its state)",
			ErrUnresponsive, c.Socket, c.Timeout)
	}
	return fmt.Errorf("ask on %s: %w", c.Socket, err)
}

// ThisNode is the node of the running process; it implements [nodes.Nodes].
type ThisNode struct {
	Client
	namespace string
}

// AddFlags adds the flags for the socket and the namespace.
func (n *ThisNode) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&n.namespace, "namespace", "n", "", "`namespace` of the Services")
	AddSocketFlag(cmd.Flags(), &n.Socket)
}

// Namespace returns the namespace of the flag, and that or kubectl's default one.
func (n *ThisNode) Namespace() (given, current string, err error) {
	return n.namespace, cmp.Or(n.namespace, "default"), nil
}

// Find returns this node.
func (n *ThisNode) Find(context.Context) (nodes.List, error) {
	return nodes.List{Nodes: []nodes.Node{{}}, Chosen: true, Limit: 1}, nil
}

// Document returns the document of the process.
func (n *ThisNode) Document(ctx context.Context, _ nodes.Node, q nodestatus.Query) (*nodestatus.Document, error) {
	return n.Get(ctx, q)
}
