package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-vmap/integration/lab"
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
	// Config is the configuration of Client. Copy it before changing it.
	Config *rest.Config

	options  Options
	dir      string
	ca       *authority
	programs string

	etcd, api, controllers *process
}

// Start starts a control plane and waits until the API server is ready and the controllers
// work. It must be closed. After an error everything is removed, and the error has the
// ends of the logs.
func Start(ctx context.Context, o Options) (*Plane, error) {
	const timeout = 3 * time.Minute // on a busy machine
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p := &Plane{options: o}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w\n%s", err, p.Logs()), p.Close())
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
	if p.etcd, err = p.run("etcd", p.etcdFlags()); err != nil {
		return err
	}
	if err := p.await(ctx, p.etcd, p.etcdReady); err != nil {
		return err
	}
	if err := p.RestartAPIServer(ctx); err != nil {
		return err
	}
	if p.controllers, err = p.run("kube-controller-manager", p.controllerFlags()); err != nil {
		return err
	}
	return p.await(ctx, p.controllers, p.controllersReady)
}

// writeIdentities makes keys, certificates and kubeconfigs, and the client.
func (p *Plane) writeIdentities() (err error) {
	if p.ca, err = newAuthority(); err != nil {
		return err
	}
	if err := p.ca.write(p.dir, p.options.Host.Addr(model.IPv4), p.options.Host.Addr(model.IPv6)); err != nil {
		return err
	}
	admin, err := p.ca.client("kubernetes-admin", "system:masters")
	if err != nil {
		return err
	}
	if err := p.writeKubeconfig(p.AdminKubeconfig(), p.URL(), admin); err != nil {
		return err
	}
	p.Config = p.restConfig(admin)
	if p.Client, err = kubernetes.NewForConfig(p.Config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return nil
}

// Close ends everything and removes its files. A second call does nothing.
func (p *Plane) Close() error {
	// In this order no part logs that another one is gone.
	for _, part := range []*process{p.controllers, p.api, p.etcd} {
		part.kill()
	}
	p.controllers, p.api, p.etcd = nil, nil, nil
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
	var all string
	for _, part := range []*process{p.etcd, p.api, p.controllers} {
		all += part.tail()
	}
	return all
}
