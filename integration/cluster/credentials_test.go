package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync/looptest"
)

// kubeconfig returns the path of a file that was right before it was changed.
func (c *oneNode) kubeconfig(t *testing.T, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) string {
	t.Helper()
	path := c.Kubeconfig(t, c.Server)
	config, err := clientcmd.LoadFromFile(path)
	clustertest.Must(t, err)
	current := config.Contexts[config.CurrentContext]
	change(config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo])
	clustertest.Must(t, clientcmd.WriteToFile(*config, path))
	return path
}

// TestInitOnlyNeedsNoAPIServer has nothing that could lead to one, or what leads
// nowhere.
func TestInitOnlyNeedsNoAPIServer(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 0)
	nowhere := c.kubeconfig(t, func(to *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { to.Server = "https://192.0.2.200:6443" })
	for _, args := range [][]string{nil, {"--kubeconfig=" + nowhere}, {"--kubeconfig=/nonexistent"}} {
		p := c.Run(t, c.Lab.Node, process.Config{Args: append([]string{
			"--init-only", "--conntrack-tcp-timeout-close-wait=" + fmt.Sprintf("%dm", 10+len(args)),
		}, args...)})
		clustertest.Must(t, ended(p, 10*time.Second))
		if is, want := closeWait(t, c.Lab.Node), fmt.Sprint(60*(10+len(args))); is != want {
			t.Errorf("%v: the sysctl is %s, want %s", args, is, want)
		}
	}
	tables, err := truth.Read(c.Lab.Node.Host)
	clustertest.Must(t, err)
	if tables != (nft.Tables{}) {
		t.Errorf("it programmed\n%s", looptest.Summary(tables))
	}
}

func closeWait(t *testing.T, n *lab.Node) (value string) {
	t.Helper()
	clustertest.Must(t, n.Do(func() error {
		text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait")
		value = strings.TrimSpace(string(text))
		return err
	}))
	return value
}

func TestUnusableKubeconfigEndsTheProcess(t *testing.T) {
	t.Parallel()
	c := newOneNode(t, 0)
	garbage := filepath.Join(t.TempDir(), "garbage")
	clustertest.Must(t, os.WriteFile(garbage, []byte("apiVersion: v1\nkind: Config\nclusters: 7\n"), 0o600))
	noCA := c.kubeconfig(t, func(to *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		to.CertificateAuthorityData, to.CertificateAuthority = nil, "/nonexistent/ca.crt"
	})
	noToken := c.kubeconfig(t, func(_ *clientcmdapi.Cluster, who *clientcmdapi.AuthInfo) {
		who.Token, who.TokenFile = "", "/nonexistent/token"
	})
	for says, args := range map[string][]string{
		"/nonexistent/kubeconfig":                {"--kubeconfig=/nonexistent/kubeconfig"},
		garbage:                                  {"--kubeconfig=" + garbage},
		"/nonexistent/ca.crt":                    {"--kubeconfig=" + noCA},
		"/nonexistent/token":                     {"--kubeconfig=" + noToken},
		"no kubeconfig file and no master given": nil,
	} {
		p := c.Run(t, c.Lab.Node, process.Config{Args: args})
		err := ended(p, 10*time.Second)
		lines := p.Log.Lines(0)
		if err == nil || !strings.HasPrefix(lines[len(lines)-1], "kube-vmap: ") || !strings.Contains(lines[len(lines)-1], says) {
			t.Errorf("%v: it ended with %v, and the last line is %s", args, err, lines[len(lines)-1])
		}
	}
}

// TestUnusableAPIServerIsLoggedOnceAndRetried has every reason for one. None may end the
// process, keep it busy, or fill its log.
func TestUnusableAPIServerIsLoggedOnceAndRetried(t *testing.T) {
	t.Parallel()
	other := stranger(t)
	type (
		server  = *clientcmdapi.Cluster
		account = *clientcmdapi.AuthInfo
	)
	for _, s := range []struct {
		name   string
		change func(*testing.T, *oneNode, server, account)
		want   string
	}{
		{"another authority", func(_ *testing.T, _ *oneNode, to server, _ account) { to.CertificateAuthorityData = other }, "certificate signed by unknown authority"},
		{"another name", func(_ *testing.T, _ *oneNode, to server, _ account) { to.TLSServerName = "example.com" }, "certificate is valid for"},
		{"a token that is none", func(_ *testing.T, _ *oneNode, _ server, who account) { who.Token = "none" }, "Unauthorized"},
		{"a token that was revoked", func(t *testing.T, c *oneNode, _ server, who account) { who.Token = c.revoked(t) }, "Unauthorized"},
		{"no token", func(_ *testing.T, _ *oneNode, _ server, who account) { who.Token = "" }, "forbidden"},
		{"unreachable address", func(_ *testing.T, _ *oneNode, to server, _ account) { to.Server = "https://192.0.2.200:6443" }, "192.0.2.200"},
		{"closed port", func(_ *testing.T, c *oneNode, to server, _ account) {
			to.Server = "https://" + c.Lab.Outside.AddrPort(model.IPv4, 7).String()
		}, "connection refused"},
		{"server does not answer", func(t *testing.T, c *oneNode, to server, _ account) { to.Server = c.silent(t) }, ""},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := newOneNode(t, 0)
			change := func(to server, who account) { s.change(t, c, to, who) }
			p := c.Run(t, c.Lab.Node, process.Config{Args: []string{
				"--kubeconfig=" + c.kubeconfig(t, change), "--hostname-override=" + c.NodeName(c.Lab.Node),
			}})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			logged, err := p.AwaitLog(ctx, 0, "a line", process.Message(logUnavailable))
			clustertest.Must(t, err)
			if !strings.Contains(logged["err"], s.want) {
				t.Errorf("the logged error is %s, want %q", logged["err"], s.want)
			}
			_, err = p.AwaitLog(ctx, 0, "metrics", func(e process.Entry) bool { return e["server"] == "metrics" })
			clustertest.Must(t, err)
			checkQuiet(t, p)
		})
	}
}

// checkQuiet checks for some seconds that the process lives, does next to nothing and
// logs nothing more, and ends it.
func checkQuiet(t *testing.T, p *clustertest.Proxy) {
	t.Helper()
	before, err := p.Cost()
	clustertest.Must(t, err)
	lines, asked := p.Log.Len(), requests(t, p)
	select {
	case <-time.After(quietTime):
	case <-p.Done():
		t.Fatal("the process ended")
	}
	after, err := p.Cost()
	clustertest.Must(t, err)
	// Each of four kinds requests a stream and then a list, and then waits for at least
	// 0.8 s.
	if n := requests(t, p) - asked; n > 4*2*3 {
		t.Errorf("%.0f requests in %s", n, quietTime)
	}
	if cpu := after.CPU - before.CPU; cpu > quietTime/10 {
		t.Errorf("%s of CPU in %s", cpu, quietTime)
	}
	for _, more := range p.Log.Entries(lines) {
		if more["kind"] != "ServiceCIDR" { // an optional resource, which may be logged
			t.Errorf("the log goes on: %v", more)
		}
	}
	probe(t, p, map[string]int{"readyz": 503, "livez": 200, "healthz": 503})
	clustertest.Must(t, p.Stop())
	if lines := linesOf(p, "API objects loaded"); len(lines) > 0 {
		t.Errorf("a proxy that read nothing logs %v", lines)
	}
}

// requests returns how many requests with all of these label values a proxy sent, by its
// own metrics. There is no metric before the first one.
func requests(t *testing.T, p *clustertest.Proxy, labels ...string) (sum float64) {
	t.Helper()
	families, err := p.Metrics()
	clustertest.Must(t, err)
	for _, m := range families["rest_client_requests_total"].GetMetric() {
		missing := slices.Clone(labels)
		for _, l := range m.GetLabel() {
			missing = slices.DeleteFunc(missing, func(value string) bool { return value == l.GetValue() })
		}
		if len(missing) == 0 {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

// TestReplacedTokenFileIsUsed begins with a token that the API server refuses. client-go
// reads the file again after 50 seconds, whatever the server answers.
func TestReplacedTokenFileIsUsed(t *testing.T) {
	if testing.Short() {
		t.Skip("of the long suite")
	}
	t.Parallel()
	c := newOneNode(t, 1)
	to := c.manualService(t, "web", c.Lab.Pods[0])
	file := filepath.Join(t.TempDir(), "token")
	clustertest.Must(t, os.WriteFile(file, []byte("none"), 0o600))
	var right string
	c.runProxy(t, c.kubeconfig(t, func(_ *clientcmdapi.Cluster, who *clientcmdapi.AuthInfo) {
		right, who.Token, who.TokenFile = who.Token, "", file
	}))
	_, err := c.proxy.AwaitLog(clustertest.Context(t), 0, "a line", process.Message(logUnavailable))
	clustertest.Must(t, err)
	// As the kubelet does it.
	clustertest.Must(t, os.WriteFile(file+".new", []byte(right), 0o600))
	clustertest.Must(t, os.Rename(file+".new", file))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second+recoveryTimeout)
	defer cancel()
	clustertest.Must(t, c.proxy.AwaitReady(ctx))
	c.proxy.AwaitTruth(t)
	checkAnswered(t, c.clients, to, "pod-1")
}

// ended waits until the process has ended, and returns its error.
func ended(p *clustertest.Proxy, within time.Duration) error {
	select {
	case <-p.Done():
		return p.Wait()
	case <-time.After(within):
		return fmt.Errorf("it has not ended after %s", within)
	}
}

// silent returns the URL of a server that accepts connections and does not answer.
func (c *oneNode) silent(t *testing.T) string {
	t.Helper()
	var l net.Listener
	clustertest.Must(t, c.Lab.Outside.Do(func() (err error) {
		var config net.ListenConfig
		l, err = config.Listen(t.Context(), "tcp", c.Lab.Outside.AddrPort(model.IPv4, 0).String())
		return err
	}))
	t.Cleanup(func() { l.Close() }) // the kernel accepts connections until then
	return "https://" + l.Addr().String()
}

// stranger returns the certificate of an authority that signed nothing.
func stranger(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	clustertest.Must(t, err)
	made, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "another authority"}, key)
	clustertest.Must(t, err)
	pem, err := cert.EncodeCertificates(made)
	clustertest.Must(t, err)
	return pem
}

// revoked returns a token that is not valid any more, because the Secret that it was bound
// to is deleted.
func (c *oneNode) revoked(t *testing.T) string {
	t.Helper()
	c.Deploy(t)
	ctx := clustertest.Context(t)
	secrets := c.Client.CoreV1().Secrets("kube-system")
	secret, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: c.ns.Name}}, metav1.CreateOptions{})
	clustertest.Must(t, err)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: secret.Name, UID: secret.UID},
	}}
	answer, err := c.Client.CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "kube-vmap", request, metav1.CreateOptions{})
	clustertest.Must(t, err)
	clustertest.Must(t, secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}))
	return answer.Status.Token
}
