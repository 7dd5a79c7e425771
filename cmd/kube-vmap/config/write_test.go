package config

import (
	"bytes"
	"os"
	"path/filepath"
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
