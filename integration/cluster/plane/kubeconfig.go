package plane

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AdminKubeconfig returns the path of a kubeconfig of an administrator, for the plane's
// lab.
func (p *Plane) AdminKubeconfig() string { return p.file("admin.kubeconfig") }

// ServiceAccountKubeconfig writes a kubeconfig to the path: for the account, by
// the token that the API server makes for it, valid for a day. server is the URL
// to go to, [Plane.URL] or [Relay.URL]. The account must exist.
func (p *Plane) ServiceAccountKubeconfig(ctx context.Context, namespace, account, server, path string) error {
	token, err := p.ServiceAccountToken(ctx, namespace, account)
	if err != nil {
		return err
	}
	return p.writeKubeconfig(path, server, identity{token: token})
}

// ServiceAccountToken asks the API server for a token of the account, valid for a
// day. The account must exist.
func (p *Plane) ServiceAccountToken(ctx context.Context, namespace, account string) (string, error) {
	day := int64(24 * 60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	answer, err := p.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("get a token of service account %s/%s: %w", namespace, account, err)
	}
	return answer.Status.Token, nil
}

// UserKubeconfig writes a kubeconfig to the path: for a user with a certificate.
func (p *Plane) UserKubeconfig(user, group, server, path string) error {
	id, err := p.ca.client(user, group)
	if err != nil {
		return err
	}
	return p.writeKubeconfig(path, server, id)
}

// CACertificate returns the certificate, in PEM, by which the API server is known.
func (p *Plane) CACertificate() []byte { return p.ca.pem }

func (p *Plane) writeKubeconfig(path, server string, id identity) error {
	const name = "plane"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{
		Server: server, TLSServerName: serverName, CertificateAuthorityData: p.ca.pem,
	}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: id.cert, ClientKeyData: id.key, Token: id.token,
	}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// restConfig returns the configuration of clients in this process that dial in the
// plane's namespace.
func (p *Plane) restConfig(id identity) *rest.Config {
	return &rest.Config{
		Host: p.URL(),
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: serverName, CAData: p.ca.pem, CertData: id.cert, KeyData: id.key,
		},
		Dial: p.options.Host.DialContext,
		QPS:  -1, // as fast as it goes
		// That a kind is deprecated is no news to a test that uses it.
		WarningHandler: rest.NoWarnings{},
		ContentConfig: rest.ContentConfig{
			ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
	}
}
