package plugin

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
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/lab"
)

// kubelet simulates the part of kubelet that serves `kubectl exec`: the streaming server that the API
// server connects to. The protocol is real: the library is that of container runtimes
// (k8s.io/cri-streaming). Like the image of kube-vmap, the container has one program and no shell.
type kubelet struct {
	host *lab.Host
	path string          // in URLs: "/exec/NAMESPACE/POD/CONTAINER"
	file string          // what [Binary] is
	ctx  context.Context //nolint:containedctx // of the programs, which outlive requests
}

// serveExec serves on the host's [objects.KubeletPort], on all its addresses, for the container of a
// pod of kube-vmap, whose program is the file, until the test ends.
func serveExec(t testing.TB, host *lab.Host, pod, file string) {
	t.Helper()
	// As a kubelet's by default: the API server does not check it.
	certificate, key, err := cert.GenerateSelfSignedCertKey(host.Name, nil, nil)
	clustertest.Must(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	clustertest.Must(t, err)
	var listener net.Listener
	clustertest.Must(t, host.Do(func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf(":%d", objects.KubeletPort))
		return err
	}))
	k := &kubelet{host: host, path: "/exec/" + strings.Join([]string{Namespace, pod, Container}, "/"), file: file, ctx: t.Context()}
	server := &http.Server{Handler: http.HandlerFunc(k.serve), ReadHeaderTimeout: time.Minute}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	go func() { _ = server.Serve(tls.NewListener(listener, config)) }() // until it is closed
	t.Cleanup(func() { clustertest.Must(t, server.Close()) })
}

// serve answers a request of the API server.
func (k *kubelet) serve(w http.ResponseWriter, r *http.Request) {
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
func (k *kubelet) ExecInContainer(
	_ context.Context, _, _, _ string, command []string, _ io.Reader, stdout, stderr io.WriteCloser, _ bool,
	_ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if len(command) == 0 || command[0] != Binary {
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

// CreateProxyPod creates a pod of the DaemonSet on a node, ready, as its controller,
// kubelet and kube-vmap would.
func (c *Cluster) CreateProxyPod(t testing.TB, node, name string) {
	t.Helper()
	ctx := clustertest.Context(t)
	set, err := c.Client.AppsV1().DaemonSets(Namespace).Get(ctx, Container, metav1.GetOptions{})
	clustertest.Must(t, err)
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Name, pod.Spec.NodeName = name, node
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	_, err = c.Client.CoreV1().Pods(Namespace).Create(ctx, pod, metav1.CreateOptions{})
	clustertest.Must(t, err)
	status := objects.Running(objects.Place{})
	status.ContainerStatuses[0].Name = Container
	_, err = (&objects.Namespace{Name: Namespace, Client: c.Client}).SetPodStatus(ctx, name, status)
	clustertest.Must(t, err)
}
