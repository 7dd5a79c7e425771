package status

import (
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

	"golang.org/x/sys/unix"
)

// Query says which part of a [Document] is wanted.
type Query struct {
	// Namespace and Name are those of Services; empty means all.
	Namespace, Name string
	// Brief leaves the endpoints out, and what is only known by a look at them.
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

// Path is where a process answers with its [Document].
const Path = "/status"

// ErrNobody is that no process answers on a socket that is to be believed.
var ErrNobody = errors.New("nobody answers")

// patience is how long a process may take to begin its answer.
const patience = 30 * time.Second

// Of an answer as many bytes are read, or it is an error: of all that is asked for,
// and of a [Document], which is held in memory.
const (
	mostOfAll      = 1 << 30
	mostOfDocument = 256 << 20
)

// Get asks the process that answers on a socket ("@name" or a path). The error is
// [ErrNobody] if there is none, or one of neither root nor this user, and
// [fs.ErrPermission] if it does not answer this user.
func Get(ctx context.Context, socket string, q Query) (*Document, error) {
	path := Path
	if v := q.Values(); len(v) > 0 {
		path += "?" + v.Encode()
	}
	body, err := Ask(ctx, socket, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	d := &Document{}
	if err := json.NewDecoder(&limited{body, mostOfDocument}).Decode(d); err != nil {
		return nil, fmt.Errorf("read the answer from %s: %w", socket, err)
	}
	return d, nil
}

// Ask gets a path from the process that answers on a socket, as [Get] does. Who asks
// closes the answer.
func Ask(ctx context.Context, socket, path string) (io.ReadCloser, error) {
	if socket == "" {
		return nil, fmt.Errorf("%w: the status socket is turned off (--status-socket is empty)", ErrNobody)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kube-vmap"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask on %s: %w", socket, err)
	}
	answer, err := client(socket).Do(r)
	if err != nil {
		return nil, explain(socket, err)
	}
	if answer.StatusCode == http.StatusOK {
		return &limited{answer.Body, mostOfAll}, nil
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // it is only for the error
	text := strings.TrimSpace(string(said))
	switch answer.StatusCode {
	case http.StatusForbidden:
		return nil, fmt.Errorf("ask on %s: %s: %w", socket, text, fs.ErrPermission)
	case http.StatusNotFound:
		return nil, fmt.Errorf("ask on %s for %s: not served; is the kube-vmap that runs here of another version?", socket, path)
	}
	return nil, fmt.Errorf("ask on %s: %s: %s", socket, answer.Status, text)
}

// client asks on one socket, once.
func client(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, err
		}
		if err := believed(conn, socket); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
	return &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true, ResponseHeaderTimeout: patience,
	}}
}

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
func explain(socket string, err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	switch {
	case errors.Is(err, ErrNobody):
		return err
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		place := "here"
		if strings.HasPrefix(socket, "@") {
			place = "in this network namespace"
		}
		return fmt.Errorf("%w on %s %s: does kube-vmap run? Run this in its pod (kubectl exec), or on the node (nsenter --net=/proc/1/ns/net)",
			ErrNobody, socket, place)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("ask on %s: only root may: %w", socket, fs.ErrPermission)
	}
	return fmt.Errorf("ask on %s: %w", socket, err)
}
