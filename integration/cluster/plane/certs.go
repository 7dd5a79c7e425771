package plane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Files that the API server reads.
const (
	caCert      = "ca.crt"
	servingCert = "apiserver.crt"
	servingKey  = "apiserver.key"
	accountKey  = "service-accounts.key"
)

// authority signs certificates for servers and clients.
type authority struct {
	key  crypto.Signer
	cert *x509.Certificate
	pem  []byte
}

// identity is a certificate or a token of a user.
type identity struct {
	cert, key []byte // PEM
	token     string
}

func newAuthority() (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	a := &authority{key: key}
	if a.cert, err = cert.NewSelfSignedCACert(cert.Config{CommonName: "kubernetes"}, key); err != nil {
		return nil, fmt.Errorf("make the certificate of the authority: %w", err)
	}
	if a.pem, err = cert.EncodeCertificates(a.cert); err != nil {
		return nil, fmt.Errorf("encode the certificate of the authority: %w", err)
	}
	return a, nil
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// sign makes a key and a certificate for it.
func (a *authority) sign(template x509.Certificate) (identity, error) {
	key, err := newKey()
	if err != nil {
		return identity{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return identity{}, fmt.Errorf("make a serial number: %w", err)
	}
	template.NotBefore, template.NotAfter = a.cert.NotBefore, time.Now().AddDate(1, 0, 0)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, key.Public(), a.key)
	if err != nil {
		return identity{}, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return encode(der, key)
}

func encode(der []byte, key crypto.Signer) (id identity, err error) {
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return id, fmt.Errorf("read a certificate back: %w", err)
	}
	if id.cert, err = cert.EncodeCertificates(parsed); err != nil {
		return id, fmt.Errorf("encode a certificate: %w", err)
	}
	if id.key, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return id, fmt.Errorf("encode a key: %w", err)
	}
	return id, nil
}

// client makes the identity of a user.
func (a *authority) client(user, group string) (identity, error) {
	return a.sign(x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: []string{group}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// write writes the files for an API server at these addresses.
func (a *authority) write(dir string, addrs ...netip.Addr) error {
	template := x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{serverName, "kubernetes.default", "localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, addr := range addrs {
		template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
	}
	serving, err := a.sign(template)
	if err != nil {
		return err
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	for name, content := range map[string][]byte{
		caCert: a.pem, servingCert: serving.cert, servingKey: serving.key, accountKey: key,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write a control plane's key: %w", err)
		}
	}
	return nil
}
