package status

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
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Query says which part of a [Document] is wanted.
type Query struct {
	// Namespace and Name are those of Services; empty means all.
	Namespace, Name string
	// Brief leaves the endpoints out, and counts them instead.
	Brief bool
}

// Values are the query in a URL, as [QueryOf] reads it.
func (q Query) Values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"namespace": q.Namespace, "name": q.Name} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Brief {
		v.Set("brief", "true")
	}
	return v
}

// QueryOf reads a query from a URL.
func QueryOf(v url.Values) Query {
	return Query{Namespace: v.Get("namespace"), Name: v.Get("name"), Brief: v.Get("brief") == "true"}
}

// ErrNobody is that no process answers on a socket that is to be believed.
var ErrNobody = errors.New("nobody answers")

// Of an answer as many bytes are read, or it is an error: of all that is asked for,
// and of a [Document], which is held in memory.
const (
	mostOfAll      = 1 << 30
	mostOfDocument = 256 << 20
)

// Client asks the process that answers on a socket.
type Client struct {
	// Socket is "@name" or a path.
	Socket string
	// Sign is how long the process may take to show that it lives; zero means five
	// seconds.
	Sign time.Duration
}

// Get asks as a [Client] does that has nothing but a socket.
func Get(ctx context.Context, socket string, q Query) (*Document, error) {
	return Client{Socket: socket}.Get(ctx, q)
}

// Ask asks as a [Client] does that has nothing but a socket.
func Ask(ctx context.Context, socket, path string) (io.ReadCloser, error) {
	return Client{Socket: socket}.Ask(ctx, path)
}

// Get asks for a document. The error is [ErrNobody] if there is no process, or one of
// neither root nor this user, [fs.ErrPermission] if it does not answer this user, and
// [ErrSilent] if it gives no sign of life.
func (c Client) Get(ctx context.Context, q Query) (*Document, error) {
	path := Path
	if v := q.Values(); len(v) > 0 {
		path += "?" + v.Encode()
	}
	body, err := c.Ask(ctx, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	d := &Document{}
	if err := json.NewDecoder(&limited{body, mostOfDocument}).Decode(d); err != nil {
		return nil, fmt.Errorf("read the answer from %s: %w", c.Socket, err)
	}
	return d, nil
}

// Ask gets a path from the process, as [Client.Get] does. Who asks closes the answer.
func (c Client) Ask(ctx context.Context, path string) (io.ReadCloser, error) {
	if c.Socket == "" {
		return nil, fmt.Errorf("%w: %w", ErrNobody, ErrNoSocket)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kube-vmap"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask on %s: %w", c.Socket, err)
	}
	var begins func()
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { begins = i.Conn.(*patient).begins }}
	answer, err := c.client().Do(r.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return nil, c.explain(err)
	}
	begins()
	if answer.StatusCode == http.StatusOK {
		return &limited{answer.Body, mostOfAll}, nil
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // it is only for the error
	text := strings.TrimSpace(string(said))
	switch answer.StatusCode {
	case http.StatusForbidden:
		return nil, fmt.Errorf("ask on %s: %s: %w", c.Socket, text, fs.ErrPermission)
	case http.StatusNotFound:
		return nil, fmt.Errorf("ask on %s for %s: not served; is the kube-vmap that runs here of another version?", c.Socket, path)
	}
	return nil, fmt.Errorf("ask on %s: %s: %s", c.Socket, answer.Status, text)
}

// ErrNoSocket is that there is no name to ask by.
var ErrNoSocket = errors.New("--status-socket is empty, which is a socket switched off; give the name or path of the one that the kube-vmap to ask has")

// client asks once.
func (c Client) client() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
		if err != nil {
			return nil, err
		}
		if err := believed(conn, c.Socket); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		patient, err := newPatient(conn, c.sign())
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return patient, nil
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

func (c Client) sign() time.Duration { return cmp.Or(c.Sign, signOfLife) }

// believed is an error unless it was root, or the user who asks, that began to listen
// on the socket (SO_PEERCRED, unix(7)): a name without a file is whose comes first.
func believed(conn net.Conn, socket string) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var of *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { of, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("find out whose socket it is: %w", err)
	}
	if of.Uid == 0 || int64(of.Uid) == int64(os.Geteuid()) {
		return nil
	}
	return fmt.Errorf("%w on %s: another program holds it, of the user with uid %d, and is not believed", ErrNobody, socket, of.Uid)
}

// errLong is the end of an answer that is too long.
var errLong = errors.New("the answer is too long")

// limited is an answer of which only so much is read.
type limited struct {
	io.ReadCloser
	left int64
}

// Read implements [io.Reader].
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLong
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// explain says what to do about an error.
func (c Client) explain(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	switch {
	case errors.Is(err, ErrNobody):
		return err
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		place := "here"
		if strings.HasPrefix(c.Socket, "@") {
			place = "in this network namespace"
		}
		return fmt.Errorf("%w on %s %s: does kube-vmap run? Run this in its pod (kubectl exec), or on the node (nsenter --net=/proc/1/ns/net)",
			ErrNobody, c.Socket, place)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("ask on %s: only root may: %w", c.Socket, fs.ErrPermission)
	case errors.Is(err, ErrSilent), errors.Is(err, syscall.EAGAIN): // or so many wait that there is no room for one more
		return fmt.Errorf("%w on %s in %s: the process that holds it is stopped or gets no processor time (ps shows its state)",
			ErrSilent, c.Socket, c.sign())
	}
	return fmt.Errorf("ask on %s: %w", c.Socket, err)
}
