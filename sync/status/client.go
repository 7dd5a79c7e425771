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
	"strings"
	"syscall"
	"time"
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

// ErrNobody is that no process answers on a socket.
var ErrNobody = errors.New("nobody answers")

// patience is how long a process may take to begin its answer.
const patience = 30 * time.Second

// Get asks the process that answers on a socket ("@name" or a path). The error is
// [ErrNobody] if there is none, and [fs.ErrPermission] if it does not answer this
// user.
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
	if err := json.NewDecoder(body).Decode(d); err != nil {
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
		return answer.Body, nil
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
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true, ResponseHeaderTimeout: patience,
	}}
}

// explain says what to do about an error.
func explain(socket string, err error) error {
	switch {
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
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("ask on %s: %w", socket, err)
}
