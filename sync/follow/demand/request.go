package demand

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// timeout limits a connection's establishment, and how long a line waits for it; acceptTimeout is
	// until the scaler accepts the request.
	timeout, acceptTimeout = 5 * time.Second, 15 * time.Second
	// keepAlive is the time between probes of an idle connection, and deadAfter how long packets may
	// remain unacknowledged: the scaler's node may have lost power.
	keepAlive, deadAfter = 5 * time.Second, 10 * time.Second
	// maxReason limits the text of an error in bytes.
	maxReason = 200
)

// request is a request to the scaler that goes on.
type request struct {
	body   *io.PipeWriter
	cancel context.CancelCauseFunc
	// results delivers nil when the scaler accepts the request, and then how it ended.
	results chan error
}

// errNoScaler says that no scaler is installed: its certificate is missing.
var errNoScaler = errors.New("no kube-vmap-scaler")

// newRequest begins a request. It returns errNoScaler without a certificate.
func (r *Reporter) newRequest(ctx context.Context) (*request, error) {
	var files [3]string
	for i, name := range [...]string{CAFile, ServiceFile, TokenFile} {
		path := filepath.Join(r.Dir, name)
		content, err := os.ReadFile(path)
		files[i] = strings.TrimSpace(string(content))
		switch {
		case name == CAFile && errors.Is(err, fs.ErrNotExist):
			return nil, errNoScaler
		case err != nil:
			return nil, err
		case files[i] == "":
			return nil, fmt.Errorf("%s: empty", path)
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(files[0])) {
		return nil, fmt.Errorf("%s: no certificate", CAFile)
	}
	addr, err := r.address(files[1])
	if err != nil {
		return nil, err
	}
	body, w := io.Pipe()
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr.String()+Path, body)
	if err != nil {
		cancel(err)
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+files[2])
	out := &request{w, cancel, make(chan error, 2)} // Run receives neither result after it gave up the request
	late := time.AfterFunc(r.acceptTimeout, func() {
		cancel(fmt.Errorf("kube-vmap-scaler has not accepted the request for %s", r.acceptTimeout))
	})
	go func() {
		defer close(out.results)
		err := send(req, roots, func() {
			late.Stop()
			out.results <- nil
		})
		late.Stop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		_ = body.CloseWithError(err) // a write that waits fails
		out.results <- err
	}()
	return out, nil
}

// send sends a request, which may take long, and returns how it ended; nil if the scaler did that
// without an error. It calls accepted when the response begins.
func send(req *http.Request, roots *x509.CertPool, accepted func()) error {
	dialer := net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 2},
		Control: func(_, _ string, c syscall.RawConn) (err error) {
			failed := c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter.Milliseconds()))
			})
			return cmp.Or(failed, err)
		},
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			return connection{c, req.Body}, err
		},
		TLSHandshakeTimeout: timeout, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: ServerName, MinVersion: tls.VersionTLS13},
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		accepted()
	}
	reason, err := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	switch {
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("kube-vmap-scaler: %s: %s", resp.Status, strings.TrimSpace(string(reason)))
	case err != nil:
		return fmt.Errorf("connection to kube-vmap-scaler: %w", err)
	case len(reason) > 0:
		return fmt.Errorf("kube-vmap-scaler: %s", strings.TrimSpace(string(reason)))
	}
	return nil
}

// A connection closes the request's body, too. RoundTrip waits for the end of its read of the body, and
// otherwise would return only after the next line.
type connection struct {
	net.Conn
	body io.Closer
}

// Close implements [net.Conn].
func (c connection) Close() error {
	_ = c.body.Close()
	return c.Conn.Close()
}

// write adds a line to the body. If it fails, the request ends.
func (r *request) write(report Report) error {
	line, err := json.Marshal(report)
	if err != nil {
		return err
	}
	defer time.AfterFunc(timeout, func() {
		r.cancel(fmt.Errorf("kube-vmap-scaler: no connection, or it has not read for %s", timeout))
	}).Stop()
	_, err = r.body.Write(append(line, '\n'))
	return err
}
