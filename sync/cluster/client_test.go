package cluster_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"kube-vmap/sync"
	"kube-vmap/sync/cluster"
	"kube-vmap/sync/cluster/apitest"
)

// kubeconfig writes a kubeconfig file for a server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"c","user":{"token":"secret"}}],
"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`, server)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func clientConfig(kubeconfig, master string) (c cluster.ClientConfig) {
	c.Kubeconfig, c.Master = kubeconfig, master
	return c
}

func TestClientUsesKubeconfigAndMaster(t *testing.T) {
	asked := make(chan *http.Request, 1)
	ask := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r })
	plain, secure := httptest.NewServer(ask), httptest.NewTLSServer(ask)
	defer plain.Close()
	defer secure.Close()
	for name, c := range map[string]cluster.ClientConfig{
		"kubeconfig":            clientConfig(kubeconfig(t, secure.URL), ""),
		"master":                clientConfig("", plain.URL),
		"kubeconfig and master": clientConfig(kubeconfig(t, "https://192.0.2.1"), secure.URL),
	} {
		t.Run(name, func(t *testing.T) {
			c.UserAgent = "kube-vmap/test"
			client, err := cluster.NewClient(c)
			if err != nil {
				t.Fatal(err)
			}
			_ = cluster.NewRecorder(client, "node-1", slog.New(slog.DiscardHandler)).FailedToStart(t.Context(), "Reason", "note")
			r := <-asked
			if got := r.Header.Get("User-Agent"); got != c.UserAgent {
				t.Errorf("the user agent is %q", got)
			}
			if got := r.Header.Get("Accept"); !strings.HasPrefix(got, "application/vnd.kubernetes.protobuf") {
				t.Errorf("it accepts %q", got)
			}
			want := ""
			if c.Kubeconfig != "" {
				want = "Bearer secret"
			}
			if got := r.Header.Get("Authorization"); got != want {
				t.Errorf("it is authorized by %q, want %q", got, want)
			}
		})
	}
}

// TestClientReadsVersionAndKubelets has a Node with addresses of both families, with and without
// the port of its kubelet.
func TestClientReadsVersionAndKubelets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		const node = `{"apiVersion":"v1","kind":"Node","status":{"addresses":[{"type":"ExternalIP","address":"192.0.2.7"},
{"type":"InternalIP","address":"192.0.2.1"},{"type":"InternalIP","address":"2001:db8::1"}],"daemonEndpoints":{"kubeletEndpoint":{%s}}}}`
		switch r.URL.Path {
		case "/version":
			_, _ = io.WriteString(w, `{"gitVersion":"v1.37.2"}`)
		case "/api/v1/nodes/usual":
			_, _ = fmt.Fprintf(w, node, "")
		case "/api/v1/nodes/other":
			_, _ = fmt.Fprintf(w, node, `"Port":7`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	config := kubeconfig(t, server.URL)
	if got, err := cluster.ServerVersion(t.Context(), config); got != "v1.37.2" || err != nil {
		t.Errorf("version %q, %v", got, err)
	}
	client, err := cluster.NewClient(clientConfig(config, ""))
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{
		"usual": "[192.0.2.1:10250 [2001:db8::1]:10250]", "other": "[192.0.2.1:7 [2001:db8::1]:7]", "none": "[]",
	} {
		if at, err := client.Kubelet(t.Context(), node); fmt.Sprint(at) != want || (err != nil) != (node == "none") {
			t.Errorf("kubelet of %s at %s, %v, want %s", node, at, err, want)
		}
	}
}

func TestClientErrorsNameTheirOrigin(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	garbled := filepath.Join(t.TempDir(), "garbled")
	if err := os.WriteFile(garbled, []byte("}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config cluster.ClientConfig
		want   []string
	}{
		"neither":        {cluster.ClientConfig{}, []string{"in-cluster", "no kubeconfig file and no master"}},
		"no file":        {clientConfig("/no/such/file", ""), []string{"kubeconfig /no/such/file"}},
		"a garbled file": {clientConfig(garbled, ""), []string{"kubeconfig " + garbled}},
		"a bad master":   {cluster.ClientConfig{Master: "http://[::1"}, []string{"master http://[::1"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.NewClient(c.config)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, want it to have %q", err, want)
				}
			}
		})
	}
}

// TestSourceLeaksNoGoroutines runs sources over real connections, where leaks show only
// in the number of goroutines.
func TestSourceLeaksNoGoroutines(t *testing.T) {
	api := filled()
	server := httptest.NewServer(api)
	defer server.Close()
	client, err := cluster.NewClient(cluster.ClientConfig{Master: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	before := 0
	for i := range 4 {
		useOnce(t, server, api, client, i)
		now := goroutines()
		if i == 0 {
			before = now // the rest belongs to the client
		} else if now > before {
			t.Fatalf("%d goroutines after one source, %d after %d", before, now, i+1)
		}
	}
}

// useOnce runs a source until it has sent a change, the second one on a connection that
// was closed.
func useOnce(t *testing.T, server *httptest.Server, api *apitest.Server, client *cluster.Client, i int) {
	ctx, cancel := context.WithCancel(t.Context())
	bursts, done := make(chan []sync.Event), make(chan error)
	source := cluster.NewSource(cluster.Config{Client: client, NodeName: "node-1"}, slog.New(slog.DiscardHandler))
	go func() { done <- source.Run(ctx, bursts) }()
	<-bursts
	if i == 1 {
		server.CloseClientConnections()
	}
	api.Put(service("web-0", 10+i))
	if got := lines(<-bursts); got != fmt.Sprintf("service default/web-0 10.96.0.%d", 10+i) {
		t.Errorf("got %s", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	server.CloseClientConnections()
}

// goroutines returns the number of goroutines once it no longer changes.
func goroutines() int {
	last, same := 0, 0
	for deadline := time.Now().Add(10 * time.Second); same < 10 && time.Now().Before(deadline); same++ {
		if now := runtime.NumGoroutine(); now != last {
			last, same = now, 0
		}
		<-time.After(20 * time.Millisecond)
	}
	return last
}
