package plane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	stdsync "sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Relay forwards connections to the API server, and refuses them on request. It runs in this
// process, and can lead from one lab to the plane of another.
type Relay struct {
	plane   *Plane
	on      *lab.Host
	at      netip.AddrPort
	down    context.CancelFunc
	running stdsync.WaitGroup
}

// Relay listens on a port of a host's IPv4 address, port 0 being any. It must be down before the
// host is closed.
func (p *Plane) Relay(on *lab.Host, port uint16) (*Relay, error) {
	r := &Relay{plane: p, on: on, at: on.AddrPort(model.IPv4, port)}
	return r, r.Up()
}

// URL is where the relay listens, for kubeconfigs.
func (r *Relay) URL() string { return urlOf(r.at) }

// Up listens, after [Relay.Down], at the same address as before.
func (r *Relay) Up() error {
	var l net.Listener
	err := r.on.Do(func() (err error) { l, err = net.Listen("tcp", r.at.String()); return err })
	if err != nil {
		return fmt.Errorf("listen for connections to the API server: %w", err)
	}
	r.at = netip.MustParseAddrPort(l.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	r.down = func() { cancel(); _ = l.Close() }
	r.running.Go(func() { r.accept(ctx, l) })
	return nil
}

// Down resets all connections; from then on the address refuses.
func (r *Relay) Down() {
	r.down()
	r.running.Wait()
}

func (r *Relay) accept(ctx context.Context, l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed
		}
		r.running.Go(func() { r.serve(ctx, client) })
	}
}

// serve forwards data in both directions, until one of them ends or the relay is down. If the API
// server is unreachable, it closes the client's connection.
func (r *Relay) serve(down context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := r.plane.options.Host.DialContext(down, "tcp", r.plane.AddrPort().String())
	if err != nil {
		return
	}
	ctx, end := context.WithCancel(down)
	defer end()
	var both stdsync.WaitGroup
	for to, from := range map[net.Conn]net.Conn{server: client, client: server} {
		context.AfterFunc(ctx, func() {
			if down.Err() != nil {
				_ = to.(*net.TCPConn).SetLinger(0) // it may be closed already
			}
			_ = to.Close()
		})
		both.Go(func() {
			defer end()
			_, _ = io.Copy(to, from)
		})
	}
	both.Wait()
}

// ProxyWithoutEnds starts a proxy before the API server, at a host's IPv4 address, which loses the
// bookmarks that end streamed lists in protobuf. It returns its URL, and how to end it.
func (p *Plane) ProxyWithoutEnds(on *lab.Host) (at string, end func() error, err error) {
	certificate, err := tls.LoadX509KeyPair(p.file(servingCert), p.file(servingKey))
	if err != nil {
		return "", nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.certificate)
	server := &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "https", Host: p.AddrPort().String()}) },
		Transport: &http.Transport{
			DialContext:     p.options.Host.DialContext,
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: serverName},
		},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("sendInitialEvents") == "true" {
				r.Body = &withoutEnds{ReadCloser: r.Body}
			}
			return nil
		},
	}}
	var l net.Listener
	err = on.Do(func() (err error) { l, err = net.Listen("tcp", on.AddrPort(model.IPv4, 0).String()); return err })
	if err != nil {
		return "", nil, err
	}
	go func() {
		_ = server.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}}))
	}()
	return urlOf(netip.MustParseAddrPort(l.Addr().String())), server.Close, nil
}

// withoutEnds are the events of a watch, each behind its length, without the ends of lists.
type withoutEnds struct {
	io.ReadCloser
	event []byte // what has not been read of it
}

// Read implements [io.Reader].
func (w *withoutEnds) Read(p []byte) (int, error) {
	for len(w.event) == 0 {
		event := make([]byte, 4)
		if _, err := io.ReadFull(w.ReadCloser, event); err != nil {
			return 0, err
		}
		event = slices.Concat(event, make([]byte, binary.BigEndian.Uint32(event)))
		if _, err := io.ReadFull(w.ReadCloser, event[4:]); err != nil {
			return 0, err
		}
		if !bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey)) {
			w.event = event
		}
	}
	n := copy(p, w.event)
	w.event = w.event[n:]
	return n, nil
}
