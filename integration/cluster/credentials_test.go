package cluster_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/truth"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
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

// ended waits until the process has ended, and returns its error.
func ended(p *clustertest.Proxy, within time.Duration) error {
	select {
	case <-p.Done():
		return p.Wait()
	case <-time.After(within):
		return fmt.Errorf("it has not ended after %s", within)
	}
}
