package plane

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

const (
	etcdAddr = "127.0.0.1:2379"
	etcdURL  = "http://" + etcdAddr
	// serverName is what the API server's certificate is for, by whatever address
	// it is reached.
	serverName = "kubernetes.default.svc"
	issuer     = "https://kubernetes.default.svc.cluster.local"
)

func (p *Plane) etcdFlags() []string {
	const peers = "http://127.0.0.1:2380"
	return []string{
		"--name=etcd", "--data-dir=" + p.file("etcd"),
		"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=etcd=" + peers,
		// Nothing needs to survive the machine.
		"--unsafe-no-fsync", "--quota-backend-bytes=8589934592", "--log-level=warn",
	}
}

// etcdReady connects to etcd, which listens when it is ready.
func (p *Plane) etcdReady(ctx context.Context) error {
	c, err := p.options.Host.DialContext(ctx, "tcp", etcdAddr)
	if err != nil {
		return err
	}
	return c.Close()
}

func (p *Plane) apiFlags() []string {
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=::", fmt.Sprintf("--secure-port=%d", apiPort),
		"--advertise-address=" + p.AddrPort().Addr().String(),
		"--tls-cert-file=" + p.file(servingCert), "--tls-private-key-file=" + p.file(servingKey),
		"--token-auth-file=" + p.file(tokens),
		"--service-account-issuer=" + issuer, "--api-audiences=" + issuer,
		"--service-account-key-file=" + p.file(servingKey), "--service-account-signing-key-file=" + p.file(servingKey),
		"--service-cluster-ip-range=" + ranges(lab.ServiceRanges),
		"--authorization-mode=Node,RBAC", "--allow-privileged",
		// Names of nodes cannot be resolved here.
		"--kubelet-preferred-address-types=InternalIP",
		"--profiling=false",
	}
}

// apiReady requests the server's readiness.
func (p *Plane) apiReady(ctx context.Context) error {
	body, err := p.Client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("/readyz: %w: %s", err, body)
	}
	return nil
}

// controllers are those that a Service proxy depends on: for slices of Pods and of
// Endpoints, for the removal of slices with their Service and of namespaces, and for the
// account that Pods need.
var controllers = []string{
	"endpointslice-controller", "endpointslice-mirroring-controller", "endpoints-controller",
	"service-cidr-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller",
	"garbage-collector-controller", "namespace-controller",
}

func (p *Plane) controllerFlags() []string {
	return append([]string{
		"--kubeconfig=" + p.AdminKubeconfig(), "--controllers=" + strings.Join(controllers, ","),
		"--root-ca-file=" + p.file(servingCert),
		"--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-service-endpoint-syncs=10",
	}, p.options.ControllerManagerFlags...)
}

// controllersReady requests the first object that Pods need from the controllers.
func (p *Plane) controllersReady(ctx context.Context) error {
	_, err := p.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func ranges(r [2]netip.Prefix) string { return r[model.IPv4].String() + "," + r[model.IPv6].String() }
