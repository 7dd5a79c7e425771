package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	stdsync "sync"
	"time"

	"k8s.io/client-go/util/cert"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/lab"
)

// Kubelet serves exec on a host. Its methods may be called concurrently.
type Kubelet struct {
	host   *lab.Host
	config *tls.Config
	ctx    context.Context //nolint:containedctx // of the programs, which outlive requests
	cancel context.CancelFunc

	mu         stdsync.Mutex
	containers map[string]Run // by path, see pathOf
	calls      []Call
	cutAfter   int           // bytes of an answer; negative is never
	hanging    chan struct{} // closed by Resume; nil if it answers
	server     *http.Server  // nil while down
}

// Call is a command that the Kubelet was asked to run.
type Call struct {
	Pod     string // namespace/name
	Command []string
}

// Start serves on the host's [objects.KubeletPort], on all its addresses. The caller must
// close it, before the host.
func Start(host *lab.Host) (*Kubelet, error) {
	// As a kubelet's by default: the API server does not check it.
	certificate, key, err := cert.GenerateSelfSignedCertKey(host.Name, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the kubelet on %s: %w", host, err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate for the kubelet on %s: %w", host, err)
	}
	k := &Kubelet{
		host: host, containers: map[string]Run{}, cutAfter: -1,
		config: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k, k.Up()
}

// Close ends all programs and connections. A second call does nothing.
func (k *Kubelet) Close() error {
	k.cancel()
	k.Resume()
	return k.Down()
}

// Up listens again after [Kubelet.Down].
func (k *Kubelet) Up() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.server != nil {
		return nil
	}
	var listener net.Listener
	err := k.host.Do(func() (err error) {
		var c net.ListenConfig
		listener, err = c.Listen(k.ctx, "tcp", fmt.Sprintf(":%d", objects.KubeletPort))
		return err
	})
	if err != nil {
		return fmt.Errorf("serve as the kubelet on %s: %w", k.host, err)
	}
	k.server = &http.Server{
		Handler: http.HandlerFunc(k.serve), ReadHeaderTimeout: time.Minute,
		ErrorLog: log.New(discard{}, "", 0), // of connections that a test broke
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	server, secure := k.server, tls.NewListener(listener, k.config)
	go func() { _ = server.Serve(secure) }() // until it is closed
	return nil
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

type connKey struct{}

// Down stops listening: the port refuses connections. Answers under way continue.
func (k *Kubelet) Down() error {
	k.mu.Lock()
	server := k.server
	k.server = nil
	k.mu.Unlock()
	if server == nil {
		return nil
	}
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the kubelet on %s: %w", k.host, err)
	}
	return nil
}

// Hang makes the Kubelet accept requests and answer nothing until [Kubelet.Resume].
func (k *Kubelet) Hang() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hanging == nil {
		k.hanging = make(chan struct{})
	}
}

// Resume ends [Kubelet.Hang].
func (k *Kubelet) Resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hanging != nil {
		close(k.hanging)
		k.hanging = nil
	}
}

// CutAfter resets each later connection after so many bytes of the program's answer; a
// negative number ends that.
func (k *Kubelet) CutAfter(bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cutAfter = bytes
}

// Add adds a container, or replaces it.
func (k *Kubelet) Add(namespace, pod, container string, run Run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.containers[pathOf(namespace, pod, container)] = run
}

// Remove removes a container: kubelet then reports that it does not exist.
func (k *Kubelet) Remove(namespace, pod, container string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.containers, pathOf(namespace, pod, container))
}

func pathOf(namespace, pod, container string) string {
	return "/exec/" + strings.Join([]string{namespace, pod, container}, "/")
}

// Calls returns the commands so far.
func (k *Kubelet) Calls() []Call {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Call(nil), k.calls...)
}
