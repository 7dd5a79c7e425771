package plugin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
)

// clusterPage is a running kubectl vmap page.
type clusterPage struct {
	testing.TB
	url    string
	client http.Client
}

// openPage starts kubectl vmap page at the machine of a user, until the test ends.
func openPage(t testing.TB, c *plugin.Cluster) *clusterPage {
	t.Helper()
	ctx := context.WithoutCancel(clustertest.Context(t)) // it ends by a signal
	cmd := c.Command(ctx, t, c.AdminKubeconfig(), "vmap", "page")
	stdout, err := cmd.StdoutPipe()
	clustertest.Must(t, err)
	clustertest.Must(t, cmd.Start())
	t.Cleanup(func() {
		clustertest.Must(t, cmd.Process.Signal(os.Interrupt))
		if err := cmd.Wait(); err != nil {
			t.Errorf("after Ctrl-C, kubectl vmap page ends with %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	clustertest.Must(t, err)
	p := &clusterPage{TB: t, url: strings.TrimSpace(line)}
	p.client = http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: c.Lab.Outside.DialContext}}
	return p
}

// get reads an answer of the page's API.
func (p *clusterPage) get(path string, into any) error {
	r, err := p.client.Get(p.url + path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(r.Body)
		return fmt.Errorf("%s: %s: %s", path, r.Status, body)
	}
	return json.NewDecoder(r.Body).Decode(into)
}

// testPage has connections of clients on two nodes to a Service with an endpoint on each node.
func testPage(t *testing.T, c *plugin.Cluster) {
	ns, ctx := c.Namespace(t), clustertest.Context(t)
	for i, s := range []*lab.Pod{c.Lab.Pods[0], c.Lab.RemotePods[0], c.Lab.ThirdPods[0]} {
		clustertest.Must(t, s.ServeAll(8282))
		_, err := ns.CreatePod(ctx, fmt.Sprint("page-", i+1), "page", c.At(s))
		clustertest.Must(t, err)
	}
	_, err := ns.CreatePod(ctx, "client", "client", c.At(c.Lab.Pods[1]))
	clustertest.Must(t, err)
	service, err := ns.CreateService(ctx, objects.Service("page", objects.Ports(80, 8282)...))
	clustertest.Must(t, err)
	clustertest.Must(t, ns.AwaitEndpoints(ctx, "page", 3))
	c.AwaitRules(t)
	p := openPage(t, c)

	var overview struct{ Nodes []struct{ State string } } // which is what keeps nodes asked
	var rows struct{ Rows []struct{ Rates []*float64 } }
	// A rate needs two answers of a node, and nodes that answer slowly are asked less often.
	slow, cancel := context.WithTimeout(t.Context(), 3*eventually.Timeout)
	defer cancel()
	clustertest.Must(t, eventually.Try(slow, func() error {
		for _, client := range []*lab.Pod{c.Lab.Pods[1], c.Lab.Pods[1], c.Lab.RemotePods[1]} {
			askAll(t, client, service)
		}
		if err := errors.Join(p.get("api/overview", &overview), p.get("api/rows?service="+ns.Name+"/page", &rows)); err != nil {
			return err
		}
		if rates := rows.Rows[0].Rates; len(rates) != 3 || slices.Contains(rates, nil) || *rates[0] <= *rates[1] || *rates[1] <= 0 || *rates[2] != 0 {
			return fmt.Errorf("two clients are on the first node, one on the second: %v", rates)
		}
		return nil
	}))
	var way report
	clustertest.Must(t, p.get("api/path?from=pod/"+ns.Name+"/client&to=svc/"+ns.Name+"/page&family=IPv6", &way))
	if way.Arrives != "always" || len(way.Ways) == 0 || len(way.Ways[0].Endpoints) != 3 {
		t.Errorf("the way of a packet is %+v", way)
	}
	if err := p.get("api/path?from=pod/"+ns.Name+"/missing&to=svc/"+ns.Name+"/page", &way); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("the way of a packet of no pod: %v", err)
	}
}

// askAll connects to a Service over each protocol and family.
func askAll(t *testing.T, client *lab.Pod, s *corev1.Service) {
	t.Helper()
	for _, w := range daemon.Transports() {
		got, err := client.Ask(w.Protocol, netip.AddrPortFrom(netip.MustParseAddr(s.Spec.ClusterIPs[w.Family]), 80), patience)
		clustertest.Must(t, err)
		if got.Outcome != lab.Answered {
			t.Fatalf("%s over %s: %s", client, w, got)
		}
	}
}
