package plugin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/cluster/traffic"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
)

// openPage starts kubectl vmap page at the machine of a user, until the test ends. It returns a
// function that reads an answer of the page's API.
func openPage(t *testing.T, c *plugin.Cluster) func(path string, into any) error {
	t.Helper()
	ctx := context.WithoutCancel(clustertest.Context(t)) // it ends by a signal
	cmd := c.Command(ctx, t, "vmap", "page")
	stdout, err := cmd.StdoutPipe()
	clustertest.Must(t, err)
	clustertest.Must(t, cmd.Start())
	t.Cleanup(func() {
		clustertest.Must(t, cmd.Process.Signal(os.Interrupt))
		if err := cmd.Wait(); err != nil {
			t.Errorf("after Ctrl-C, kubectl vmap page ends with %v", err)
		}
	})
	url, err := bufio.NewReader(stdout).ReadString('\n')
	clustertest.Must(t, err)
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: c.Lab.Outside.DialContext}}
	return func(path string, into any) error {
		r, err := client.Get(strings.TrimSpace(url) + path)
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
}

// testPage has connections of a client on the first node to a Service with an endpoint on each node.
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
	get, client := openPage(t, c), traffic.From(c.Lab.Pods[1].Host)

	var overview struct{ Nodes []struct{ State string } } // which is what keeps nodes asked
	var rows struct{ Rows []struct{ Rates []*float64 } }
	// A rate needs two answers of a node, and nodes that answer slowly are asked less often.
	slow, cancel := context.WithTimeout(t.Context(), 3*eventually.Timeout)
	defer cancel()
	clustertest.Must(t, eventually.Try(slow, func() error {
		if err := errors.Join(
			client.AnsweredBy(traffic.Service(service, 80), "pod-1", "remote-1", "third-1"),
			get("api/overview", &overview), get("api/rows?service="+ns.Name+"/page", &rows),
		); err != nil {
			return err
		}
		if rates := rows.Rows[0].Rates; len(rates) != 3 || slices.Contains(rates, nil) || *rates[0] <= 0 || *rates[1]+*rates[2] != 0 {
			return fmt.Errorf("the client is on the first node: %v", rates)
		}
		return nil
	}))
	var way struct {
		Arrives string
		Ways    []struct{ Endpoints []struct{ Address string } }
	}
	clustertest.Must(t, get("api/path?from=pod/"+ns.Name+"/client&to=svc/"+ns.Name+"/page&family=IPv6", &way))
	if way.Arrives != answer.Always || len(way.Ways) == 0 || len(way.Ways[0].Endpoints) != 3 {
		t.Errorf("the way of a packet is %+v", way)
	}
	if err := get("api/path?from=pod/"+ns.Name+"/missing&to=svc/"+ns.Name+"/page", &way); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("the way of a packet of no pod: %v", err)
	}
}
