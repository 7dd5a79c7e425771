package plane

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

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
