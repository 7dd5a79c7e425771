package cluster_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/sync/source/cluster"
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
			accept := "application/vnd.kubernetes.protobuf;drop=metadata.managedFields,*/*;drop=metadata.managedFields"
			if c.Kubeconfig == "" {
				c.AcceptContentTypes, accept = "application/json", "application/json;drop=metadata.managedFields"
			}
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
			if got := r.Header.Get("Accept"); got != accept {
				t.Errorf("it accepts %q, want %q", got, accept)
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

func TestServerVersion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"gitVersion":"v1.37.2"}`)
	}))
	defer server.Close()
	config := kubeconfig(t, server.URL)
	client, err := cluster.ForRequests(config)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.Version(t.Context()); got != "v1.37.2" || err != nil {
		t.Errorf("version %q, %v", got, err)
	}
	if got, err := client.ServiceCIDRs(t.Context()); len(got) > 0 || err != nil {
		t.Errorf("ServiceCIDRs of an old API server: %v, %v", got, err)
	}
}

func TestServerIsItsAddressesAndPort(t *testing.T) {
	t.Setenv("KUBERNETES_PORT_443_TCP_ADDR", "10.96.0.1")
	for server, want := range map[string]struct {
		at  string
		own bool
	}{
		"https://192.0.2.1:6443": {"[192.0.2.1:6443]", false},
		"https://[2001:db8::1]":  {"[[2001:db8::1]:443]", false},
		"http://10.96.0.1/path":  {"[10.96.0.1:80]", true},
	} {
		client, err := cluster.ForRequests(kubeconfig(t, server))
		if err != nil {
			t.Fatal(err)
		}
		at, err := client.Server(t.Context())
		if fmt.Sprint(at) != want.at || slices.ContainsFunc(at, cluster.IsOwnService) != want.own || err != nil {
			t.Errorf("%s: %s, %v, want %v", server, at, err, want)
		}
	}
}

func TestClientErrorsNameTheirOrigin(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	garbled := filepath.Join(t.TempDir(), "garbled")
	if err := os.WriteFile(garbled, []byte("}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]cluster.ClientConfig{
		"the in-cluster configuration (no kubeconfig file and no master given)": {},
		"kubeconfig /no/such/file": clientConfig("/no/such/file", ""),
		"kubeconfig " + garbled:    clientConfig(garbled, ""),
		"master http://[::1":       clientConfig("", "http://[::1"),
	} {
		if _, err := cluster.NewClient(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want it to have %q", err, want)
		}
	}
}
