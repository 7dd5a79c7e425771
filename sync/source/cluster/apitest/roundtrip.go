package apitest

import (
	"context"
	"io"
	"net"
	"net/http"
	stdsync "sync"
	"syscall"

	"k8s.io/client-go/rest"
)

// Config returns the configuration of a client of the server without a network.
func (s *Server) Config() *rest.Config {
	config := &rest.Config{Host: "http://api", Transport: s, QPS: -1}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return config
}

// RoundTrip implements [http.RoundTripper].
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	down := s.faults.down
	s.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	ctx, cancel := context.WithCancel(r.Context())
	reader, writer := io.Pipe()
	a := &responseWriter{header: http.Header{}, body: writer, headerSent: make(chan struct{})}
	go func() {
		defer cancel()
		s.ServeHTTP(a, r.WithContext(ctx))
		a.WriteHeader(http.StatusOK)
		_ = writer.CloseWithError(r.Context().Err()) // which the client sees, unless it is nil
	}()
	select {
	case <-a.headerSent:
	case <-r.Context().Done():
		_ = reader.Close()
		return nil, r.Context().Err()
	}
	return &http.Response{
		StatusCode: a.code, Status: http.StatusText(a.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: &responseBody{reader, cancel}, ContentLength: -1, Request: r,
	}, nil
}

// A responseWriter is the server's side of a response.
type responseWriter struct {
	header     http.Header
	body       *io.PipeWriter
	once       stdsync.Once
	code       int
	headerSent chan struct{}
}

// Header implements [http.ResponseWriter].
func (a *responseWriter) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *responseWriter) WriteHeader(code int) {
	a.once.Do(func() {
		a.code = code
		close(a.headerSent)
	})
}

// Write implements [http.ResponseWriter].
func (a *responseWriter) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// A responseBody is the client's side of a response. Close cancels the request.
type responseBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements [io.Closer].
func (b *responseBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
