package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/lab"
)

// Kubelet serves exec on a host, for one container.
type Kubelet struct {
	host   *lab.Host
	path   string          // in URLs: "/exec/NAMESPACE/POD/CONTAINER"
	name   string          // of the container's program
	file   string          // the program
	ctx    context.Context //nolint:containedctx // of the programs, which outlive requests
	cancel context.CancelFunc
	server *http.Server
}

// Start serves on the host's [objects.KubeletPort], on all its addresses, for a container that
// has one program: the file, as name. The caller must close it, before the host.
func Start(host *lab.Host, namespace, pod, container, name, file string) (*Kubelet, error) {
	// As a kubelet's by default: the API server does not check it.
	certificate, key, err := cert.GenerateSelfSignedCertKey(host.Name, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the kubelet on %s: %w", host, err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate for the kubelet on %s: %w", host, err)
	}
	var listener net.Listener
	err = host.Do(func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf(":%d", objects.KubeletPort))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("serve as the kubelet on %s: %w", host, err)
	}
	k := &Kubelet{host: host, path: "/exec/" + strings.Join([]string{namespace, pod, container}, "/"), name: name, file: file}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.server = &http.Server{Handler: http.HandlerFunc(k.serve), ReadHeaderTimeout: time.Minute}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	go func() { _ = k.server.Serve(tls.NewListener(listener, config)) }() // until it is closed
	return k, nil
}

// Close ends all programs, and listens no more.
func (k *Kubelet) Close() error {
	k.cancel()
	return k.server.Close()
}

// serve answers a request of the API server.
func (k *Kubelet) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/exec/"), "/")
	if r.URL.Path != k.path {
		// In these words of kubelet.
		http.Error(w, fmt.Sprintf("container not found (%q)", path[len(path)-1]), http.StatusInternalServerError)
		return
	}
	streams, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	const idleTimeout = 4 * time.Hour // that of container runtimes
	remotecommand.ServeExec(w, r, k, path[1], "", path[2], r.URL.Query()["command"], streams,
		idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer implements [remotecommand.Executor].
func (k *Kubelet) ExecInContainer(
	_ context.Context, _, _, _ string, command []string, _ io.Reader, stdout, stderr io.WriteCloser, _ bool,
	_ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if len(command) == 0 || command[0] != k.name {
		return fmt.Errorf("exec: %q: executable file not found in $PATH", command)
	}
	cmd := k.host.Command(k.ctx, k.file, command[1:]...)
	if stdout != nil { // the client may not ask for it
		cmd.Stdout = stdout
	}
	if stderr != nil {
		cmd.Stderr = stderr
	}
	cmd.Env, cmd.Dir = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}
