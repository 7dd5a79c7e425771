package nodes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/explain/answer"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kubectl-vmap/nodes"
	"kube-vmap/cmd/kubectl-vmap/nodestest"
)

// recorded returns what kube-vmap with a schema printed, for the manifests in
// sync/manifests/testdata/cluster: schema 0 that of v0.1.0.
func recorded(t *testing.T, schema int, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("schema-%d", schema), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRecordedDocumentsAreRead reads a document of each schema that is supported.
func TestRecordedDocumentsAreRead(t *testing.T) {
	for schema := range status.Schema + 1 {
		text := recorded(t, schema, "status.json")
		if has := strings.Contains(text, fmt.Sprintf(`"schema":%d,`, schema)); has != (schema > 0) {
			t.Errorf("schema %d: the record has another one", schema)
		}
		c := nodestest.New(t, map[string]nodestest.Program{"worker-1": nodestest.Prints(text)}).Cluster(t, nodes.Config{})
		d, err := c.Document(t.Context(), node(t, c, "worker-1"), status.Query{})
		if err != nil {
			t.Errorf("schema %d: %v", schema, err)
			continue
		}
		if d.Schema != schema || d.Node != "worker-1" || !d.Ready || len(d.Services) != 4 {
			t.Errorf("schema %d: %+v", schema, d)
		}
		web, gateway := &d.Services[1], &d.Services[3]
		if web.State() != status.StateOK || d.EndpointText(web) != "1/1" || web.Ports[0].Endpoints[0].At() != "10.244.0.80:8080" {
			t.Errorf("schema %d: %+v is %s", schema, web, web.State())
		}
		if gateway.State() != status.StateNoEndpoints || gateway.Ports[0].Frontends[1].At(gateway.Ports[0].Protocol) != "*:30977/sctp" {
			t.Errorf("schema %d: %+v is %s", schema, gateway, gateway.State())
		}
	}
}

// TestRecordedAnswersAreRead reads answers of explain of each schema that is supported.
func TestRecordedAnswersAreRead(t *testing.T) {
	for schema := range answer.Schema + 1 {
		for name, want := range map[string][]string{
			"explain-delivered.json": {"10.244.0.7 -> 10.96.0.80:80/tcp asks for default/web", "goes to one endpoint", "10.244.0.80:8080"},
			"explain-ipv6.json":      {"[fd00:10:96::a]:53/udp asks for kube-system/kube-dns:dns", "[fd00:10:244::2]:53"},
			"explain-refused.json":   {"10.96.44.7:9999/sctp asks for shop/gateway:sctp", "refused with", "no EndpointSlice names an endpoint"},
		} {
			program := prints(recorded(t, schema, name), 1)
			c := nodestest.New(t, map[string]nodestest.Program{"worker-1": program}).Cluster(t, nodes.Config{})
			var a answer.Answer
			if err := c.JSON(t.Context(), node(t, c, "worker-1"), answer.Schema, &a, "explain", "-o", "json"); err != nil {
				t.Errorf("schema %d, %s: %v", schema, name, err)
			}
			for _, part := range want {
				if !strings.Contains(a.Text(), part) {
					t.Errorf("schema %d, %s: no %q in\n%s", schema, name, part, a.Text())
				}
			}
		}
	}
}
