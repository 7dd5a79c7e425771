package plugin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/cluster/clustertest"
	"kube-vmap/integration/cluster/objects"
	"kube-vmap/integration/cluster/plugin"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
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

// testPage has connections of clients on two nodes to a Service with an endpoint on each, and
// one Service without endpoints.
func testPage(t *testing.T, c *plugin.Cluster) {
	ns, ctx := c.Namespace(t), clustertest.Context(t)
	servers := []*lab.Pod{c.Lab.Pods[0], c.Lab.RemotePods[0], c.Lab.ThirdPods[0]}
	for i, s := range servers {
		clustertest.Must(t, s.ServeAll(8282))
		_, err := ns.CreatePod(ctx, fmt.Sprint("page-", i+1), "page", c.At(s))
		clustertest.Must(t, err)
	}
	_, err := ns.CreatePod(ctx, "client", "client", c.At(c.Lab.Pods[1]))
	clustertest.Must(t, err)
	service, err := ns.CreateService(ctx, objects.Service("page", objects.Ports(80, 8282)...))
	clustertest.Must(t, err)
	_, err = ns.CreateService(ctx, objects.Service("empty", objects.Ports(80, 8282)...))
	clustertest.Must(t, err)
	c.AwaitRules(t)
	p := openPage(t, c)

	type line struct {
		Namespace, Name, State string
		Rate                   *float64
		Connections            uint64
		Nodes                  int
	}
	var overview struct {
		Nodes []struct {
			Name, State, Text string
			Rate              *float64
		}
		Services []line
		Problems []struct {
			Namespace, Name, Reason string
			Count                   int
		}
	}
	find := func(name string) line {
		for _, s := range overview.Services {
			if s.Namespace == ns.Name && s.Name == name {
				return s
			}
		}
		return line{}
	}
	ask := func(clients ...*lab.Pod) {
		for _, client := range clients {
			for _, f := range model.Families {
				for _, protocol := range model.Protocols {
					got, err := client.Ask(protocol, netip.AddrPortFrom(netip.MustParseAddr(service.Spec.ClusterIPs[f]), 80), patience)
					clustertest.Must(t, err)
					if got.Outcome != lab.Answered {
						t.Fatalf("%s over %s: %s", client, protocol, got)
					}
				}
			}
		}
	}
	// A rate needs two answers of a node, and nodes that answer slowly are asked less often.
	slow, cancel := context.WithTimeout(ctx, 3*eventually.Timeout)
	defer cancel()
	err = eventually.Try(slow, func() error {
		ask(c.Lab.Pods[1], c.Lab.Pods[1], c.Lab.RemotePods[1])
		if err := p.get("api/overview", &overview); err != nil {
			return err
		}
		for _, n := range overview.Nodes {
			if n.State != "ok" && n.State != "problem" || n.Rate == nil {
				return fmt.Errorf("%s is %s: %s", n.Name, n.State, n.Text)
			}
		}
		if s := find("page"); s.Rate == nil || *s.Rate == 0 || s.Nodes != 2 {
			return fmt.Errorf("the Service is %+v", s)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the page has not the rates of both clients: %v", err)
	}
	if s := find("empty"); len(overview.Nodes) != 3 || s.State == "" || s.State == "OK" {
		t.Errorf("there are %d nodes, and the empty Service is %+v", len(overview.Nodes), s)
	}
	found := false
	for _, problem := range overview.Problems {
		found = found || problem.Namespace == ns.Name && problem.Name == "empty" && problem.Count == 3
	}
	if !found {
		t.Errorf("no problem of the empty Service on 3 nodes: %+v", overview.Problems)
	}

	var rows struct{ Rows []struct{ Rates []*float64 } }
	clustertest.Must(t, p.get("api/rows?service="+ns.Name+"/page", &rows))
	if rates := rows.Rows[0].Rates; len(rates) != 3 || *rates[0] <= *rates[1] || *rates[1] <= 0 || *rates[2] != 0 {
		t.Errorf("two clients are on the first node, one on the second: %v", rates)
	}

	var details struct {
		Nodes []struct {
			Name  string
			Flows []struct{ Node string }
		}
		Differences []any
	}
	clustertest.Must(t, p.get("api/service?namespace="+ns.Name+"&name=page", &details))
	if len(details.Nodes) != 3 || len(details.Differences) != 0 {
		t.Errorf("the nodes that know the Service are %+v, with differences %v", details.Nodes, details.Differences)
	}
	for _, n := range details.Nodes {
		if len(n.Flows) != 6 || n.Flows[0].Node == "" {
			t.Errorf("%s knows %+v", n.Name, n.Flows)
		}
	}

	var way report
	clustertest.Must(t, p.get("api/path?from=pod/"+ns.Name+"/client&to=svc/"+ns.Name+"/page&family=IPv6", &way))
	if way.Arrives != "always" || len(way.Ways) == 0 || len(way.Ways[0].Endpoints) != 3 {
		t.Errorf("the way of a packet is %+v", way)
	}
	if err := p.get("api/path?from=pod/"+ns.Name+"/missing&to=svc/"+ns.Name+"/page", &way); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("the way of a packet of no pod: %v", err)
	}
}
