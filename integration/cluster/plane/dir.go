package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"kube-vmap/model"
)

// dirPrefix begins the names of the folders of planes; the process's number
// follows.
const dirPrefix = "kube-vmap-plane-"

// makeDir makes a folder for a plane's files and removes those of planes whose
// process is gone.
func makeDir() (string, error) {
	old, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return "", fmt.Errorf("look for folders of old control planes: %w", err)
	}
	for _, dir := range old {
		if !abandoned(filepath.Base(dir)) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return "", fmt.Errorf("remove the folder of an old control plane: %w", err)
		}
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("make the control plane's folder: %w", err)
	}
	return dir, nil
}

func abandoned(name string) bool {
	pid, _, ok := strings.Cut(strings.TrimPrefix(name, dirPrefix), "-")
	n, err := strconv.Atoi(pid)
	return ok && err == nil && errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// ErrNotBuilt means that the programs of the control plane do not exist.
var ErrNotBuilt = errors.New("the programs of the control plane are not built; .ci/cluster builds them")

// Program returns the path of one of the programs that .ci/cluster builds, such as
// "kubectl" or "kube-proxy". The error is an [ErrNotBuilt] if it did not.
func Program(name string) (string, error) {
	dir, err := programs()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}

// programs returns the folder of the programs, found from the working directory up.
func programs() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the programs of the control plane: %w", err)
	}
	for {
		// The stamp is written last.
		if _, err := os.Stat(filepath.Join(at, ".cache", "cluster", "stamp")); err == nil {
			return filepath.Join(at, ".cache", "cluster"), nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", ErrNotBuilt
		}
		at = up
	}
}

func (p *Plane) file(name string) string { return filepath.Join(p.dir, name) }

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
