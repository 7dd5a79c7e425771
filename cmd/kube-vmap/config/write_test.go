package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
