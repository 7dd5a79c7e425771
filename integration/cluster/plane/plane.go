package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

// Options say what a plane consists of.
type Options struct {
	// Host is where everything runs. Its IPv4 address on the link outside is what
	// the API server is reached by. It must outlive the plane.
	Host *lab.Host
	// ControllerManagerFlags come after the plane's own, and so replace those of the same name.
	ControllerManagerFlags []string
}

// apiPort is where the API server listens, on all addresses of its host.
const apiPort = 6443

// Plane is a running control plane. Its methods may be called concurrently, except those
// that kill and start a part.
type Plane struct {
	// Client is an administrator's. It has no rate limit, uses protobuf and works from this
	// process, whatever its network namespace.
	Client kubernetes.Interface

	options     Options
	dir         string
	certificate []byte // of the API server
	programs    string

	api   *process.Process
	parts []*process.Process // all that were started
}

// Start starts a control plane and waits until the API server is ready and the controllers
// work. It must be closed. After an error everything is removed.
func Start(ctx context.Context, o Options) (*Plane, error) {
	const timeout = 3 * time.Minute // on a busy machine
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p := &Plane{options: o}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w", err), p.Close())
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context) (err error) {
	if p.programs, err = programs(); err != nil {
		return err
	}
	if p.dir, err = makeDir(); err != nil {
		return err
	}
	if err := p.writeIdentities(); err != nil {
		return err
	}
	if _, err := p.run(ctx, "etcd", p.etcdFlags(), p.etcdReady); err != nil {
		return err
	}
	if err := p.RestartAPIServer(ctx); err != nil {
		return err
	}
	_, err = p.run(ctx, "kube-controller-manager", p.controllerFlags(), p.controllersReady)
	return err
}

// run starts a program of the plane in its namespace, and waits until it is ready. Ctrl-C ends
// only this process, which then cleans up.
func (p *Plane) run(ctx context.Context, name string, flags []string, ready func(context.Context) error) (*process.Process, error) {
	part, err := process.Start(context.Background(), process.Config{
		Program: filepath.Join(p.programs, name), Args: flags, Host: p.options.Host,
		Attributes: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, err
	}
	p.parts = append(p.parts, part)
	return part, part.Await(ctx, name, func() error { return ready(ctx) })
}

// KillAPIServer kills the API server. From then on its port refuses connections.
func (p *Plane) KillAPIServer() { p.api.Kill() }

// RestartAPIServer starts the API server, after it was killed, on the same port
// and data, and waits until it is ready.
func (p *Plane) RestartAPIServer(ctx context.Context) (err error) {
	p.api, err = p.run(ctx, "kube-apiserver", p.apiFlags(), p.apiReady)
	return err
}

// Close ends everything and removes its files. A second call does nothing.
func (p *Plane) Close() error {
	for _, part := range slices.Backward(p.parts) { // in this order no part logs that another one is gone
		part.Kill()
	}
	if p.dir == "" {
		return nil
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("remove the control plane's files: %w", err)
	}
	p.dir = ""
	return nil
}

// AddrPort returns where the API server listens, as seen from the plane's lab.
func (p *Plane) AddrPort() netip.AddrPort { return p.options.Host.AddrPort(model.IPv4, apiPort) }

// URL is [Plane.AddrPort] for kubeconfigs and flags.
func (p *Plane) URL() string { return urlOf(p.AddrPort()) }

func urlOf(a netip.AddrPort) string {
	return "https://" + net.JoinHostPort(a.Addr().String(), strconv.Itoa(int(a.Port())))
}

// Logs returns the ends of the logs of all parts.
func (p *Plane) Logs() string {
	var all []string
	for _, part := range p.parts {
		all = append(all, part.Log.Tail())
	}
	return strings.Join(all, "---\n")
}

// Kubectl runs kubectl as one who may do anything and returns what it prints.
func (p *Plane) Kubectl(ctx context.Context, args ...string) (string, error) {
	all := append([]string{"--kubeconfig=" + p.AdminKubeconfig(), "--cache-dir=" + p.file("kubectl")}, args...)
	cmd := p.options.Host.Command(ctx, filepath.Join(p.programs, "kubectl"), all...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w\n%s%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}
