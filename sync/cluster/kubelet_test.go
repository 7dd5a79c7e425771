package cluster_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"kube-vmap/sync/cluster"
)

// TestKubeletListensAtInternalAddresses has a Node with other addresses, too, and one that names no
// port.
func TestKubeletListensAtInternalAddresses(t *testing.T) {
	const addresses = `"addresses":[{"type":"InternalIP","address":"192.0.2.1"},{"type":"ExternalIP","address":"198.51.100.1"},
{"type":"Hostname","address":"node"},{"type":"InternalIP","address":"2001:db8::1"}]`
	nodes := map[string]string{
		"/api/v1/nodes/usual": `{` + addresses + `}`,
		"/api/v1/nodes/other": `{` + addresses + `,"daemonEndpoints":{"kubeletEndpoint":{"Port":10255}}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, known := nodes[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Node","status":` + status + `}`))
	}))
	defer server.Close()
	client, err := cluster.NewClient(clientConfig("", server.URL))
	if err != nil {
		t.Fatal(err)
	}
	for name, port := range map[string]uint16{"usual": 10250, "other": 10255, "missing": 0} {
		var want []netip.AddrPort
		if port != 0 {
			want = []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port), netip.AddrPortFrom(netip.MustParseAddr("2001:db8::1"), port)}
		}
		if got, err := client.Kubelet(t.Context(), name); !slices.Equal(got, want) || (err == nil) != (port != 0) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
}
