package plane

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"kube-vmap/model"
)

// Files that the API server reads. Its key also signs tokens of service accounts.
const (
	servingCert = "apiserver.crt"
	servingKey  = "apiserver.key"
	tokens      = "tokens.csv"
)

// adminToken is the administrator's, who may act as any user.
const adminToken = "admin"

// writeIdentities makes the files of the API server, the administrator's kubeconfig, and the
// client.
func (p *Plane) writeIdentities() error {
	host := p.options.Host
	addrs := []net.IP{host.Addr(model.IPv4).AsSlice(), host.Addr(model.IPv6).AsSlice(), net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	certificate, key, err := cert.GenerateSelfSignedCertKey(serverName, addrs, []string{"localhost"})
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	p.certificate = certificate
	for name, content := range map[string][]byte{
		servingCert: certificate, servingKey: key, tokens: []byte(adminToken + `,kubernetes-admin,0,"system:masters"`),
	} {
		if err := os.WriteFile(p.file(name), content, 0o600); err != nil {
			return fmt.Errorf("write a file of the API server: %w", err)
		}
	}
	if err := p.writeKubeconfig(p.AdminKubeconfig(), p.URL(), adminToken); err != nil {
		return err
	}
	config, err := p.restConfig()
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	p.Client, err = kubernetes.NewForConfig(config)
	return err
}

// AdminKubeconfig returns the path of a kubeconfig of an administrator, for the plane's
// lab.
func (p *Plane) AdminKubeconfig() string { return p.file("admin.kubeconfig") }

// ServiceAccountKubeconfig writes a kubeconfig to the path: for the account, by
// the token that the API server makes for it, valid for a day. server is the URL
// to go to, [Plane.URL] or [Relay.URL]. The account must exist.
func (p *Plane) ServiceAccountKubeconfig(ctx context.Context, namespace, account, server, path string) error {
	token, err := p.Kubectl(ctx, "create", "token", account, "--namespace="+namespace, "--duration=24h")
	if err != nil {
		return err
	}
	return p.writeKubeconfig(path, server, strings.TrimSpace(token))
}

// CACertificate returns the certificate, in PEM, by which the API server is known.
func (p *Plane) CACertificate() []byte { return p.certificate }

func (p *Plane) writeKubeconfig(path, server, token string) error {
	const name = "plane"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{
		Server: server, TLSServerName: serverName, CertificateAuthorityData: p.certificate,
	}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// restConfig returns the configuration of clients in this process that dial in the
// plane's namespace.
func (p *Plane) restConfig() (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", p.AdminKubeconfig())
	if err != nil {
		return nil, err
	}
	c.Dial, c.QPS = p.options.Host.DialContext, -1 // as fast as it goes
	c.WarningHandler = rest.NoWarnings{}           // that a kind is deprecated is no news to a test that uses it
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return c, nil
}
