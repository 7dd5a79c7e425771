package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
)

// written returns what Write writes.
func written(t *testing.T, c *Config) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrittenConfigRoundTrips(t *testing.T) {
	for _, args := range [][]string{
		{"--cluster-cidr=10.244.0.0/16"},
		{"--config=testdata/kubeadm.yaml", "--hostname-override=worker-1", "-v=4"},
		{
			"--cluster-cidr=fd00::/56", "--bind-address=::1", "--iptables-min-sync-period=1s", "--masquerade-all",
			"--conntrack-max-per-core=0", "--oom-score-adj=0",
			"--logging-format=json", "--feature-gates=ComponentFlagz=false", "--profiling", "--kube-api-qps=0.5",
		},
		{"--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth"},
		{"--cluster-cidr=10.244.0.0/16", "--nodeport-addresses=primary,localhost,192.0.2.0/24", "--ipvs-scheduler=mh"},
	} {
		c := load(t, args...)
		if len(c.Warnings) > 0 {
			t.Fatalf("%v: warnings: %v", args, c.Warnings)
		}
		text := written(t, c)
		again := load(t, "--config", write(t, text))
		if !equality.Semantic.DeepEqual(again.Proxy, c.Proxy) {
			t.Errorf("%v: got %+v\nwant %+v", args, again.Proxy, c.Proxy)
		}
		if len(again.Warnings) > 0 {
			t.Errorf("%v: warnings: %v", args, again.Warnings)
		}
	}
}

func TestWrittenConfigKeepsTheMode(t *testing.T) {
	for _, mode := range []string{"iptables", "ipvs"} {
		c := load(t, "--proxy-mode", mode, "--masquerade-all", "--iptables-masquerade-bit=7",
			"--iptables-sync-period=40s", "--ipvs-sync-period=50s")
		again := load(t, "--config", write(t, written(t, c)))
		if !equality.Semantic.DeepEqual(again.Proxy, c.Proxy) || again.MasqueradeMark() != 1<<7 || !again.section().masqueradeAll {
			t.Errorf("%s: got %+v\nwant %+v", mode, again.Proxy, c.Proxy)
		}
		if len(warned(again, "mode: "+mode)) != 1 {
			t.Errorf("%s: warnings: %v", mode, again.Warnings)
		}
	}
}

func TestWrittenConfigHasKindAndEveryField(t *testing.T) {
	text := written(t, load(t))
	reference, err := os.ReadFile("testdata/kube-proxy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(text), names(string(reference)); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	data, err := json.Marshal(load(t).Proxy)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kind":"KubeProxyConfiguration"`, `"apiVersion":"kubeproxy.config.k8s.io/v1alpha1"`, `"mode":"nftables"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in %s", want, data)
		}
	}
}

// names returns the names of the fields in YAML.
func names(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, ":")
		out = append(out, strings.TrimRight(name, "\n"))
	}
	return out
}

func TestUnwritableSettingsAreAWarning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	for _, flag := range []string{"--healthz-port=0", "--metrics-bind-address="} {
		if got := warned(load(t, "--write-config-to", path, flag), "cannot disable"); len(got) != 1 {
			t.Errorf("%s: got %v", flag, got)
		}
	}
	if got := warned(load(t, "--write-config-to", path), "cannot disable"); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriteReturnsWriterErrors(t *testing.T) {
	if err := load(t).Write(brokenWriter{}); err == nil {
		t.Error("no error")
	}
}
