package manifests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileSizeLimit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, serviceText("web", "10.96.0.10"))
	f := newFolder("worker-1")
	if events, report := f.read([]string{path}); len(events) != 2 || len(report.problems) > 0 {
		t.Fatalf("events %v, problems %v", events, report.problems)
	}
	if err := os.Truncate(path, maxManifest+1); err != nil {
		t.Fatal(err)
	}
	events, report := f.read([]string{path})
	if len(events) > 0 || len(report.problems) != 1 || !errors.Is(report.problems[0], errTooLong) {
		t.Errorf("of a file that has become too long: events %v, problems %v", events, report.problems)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/zero", fifo} { // has no end; never begins
		if _, errs := Load(path, "worker-1"); len(errs) != 1 || !errors.Is(errs[0], errNotRegular) {
			t.Errorf("of %s: %v", path, errs)
		}
	}
}

func TestAliasExpansionLimit(t *testing.T) {
	p := newParser("worker-1")
	short := "x: &ports\n- {name: http, port: 80}\ny: *ports\n" + serviceText("web", "10.96.0.10")
	if parsed := p.parse("f", []byte(short)); parsed.unparsed || len(parsed.objects) != 1 {
		t.Errorf("got %+v", parsed)
	}
	for name, text := range map[string]string{
		"one alias many times": "b: [" + strings.Repeat("*a,", 1000) + "]\n",
		"aliases of aliases":   "b: &b [" + strings.Repeat("*a,", 40) + "]\nc: [" + strings.Repeat("*b,", 40) + "]\n",
		"as keys":              "b: [" + strings.Repeat("{*a : 1},", 1000) + "]\n",
	} {
		parsed := p.parse("f", []byte("a: &a "+strings.Repeat("x", 100_000)+"\n"+text))
		if len(parsed.problems) != 1 || !errors.Is(parsed.problems[0], errAliases) || !parsed.unparsed {
			t.Errorf("%s: problems %v", name, parsed.problems)
		}
	}
}

func TestParseErrorLimit(t *testing.T) {
	p := newParser("worker-1")
	for name, garbage := range map[string]string{
		"documents": strings.Repeat("---\na: [\n", 20*maxParseErrors),
		"items":     "---\nkind: List\napiVersion: v1\nitems: [" + strings.Repeat("1,", 20*maxParseErrors) + "]\n",
	} {
		parsed := p.parse("f", []byte(serviceText("web", "10.96.0.10")+garbage+"---\n"+serviceText("db", "10.96.0.11")))
		n := len(parsed.problems)
		if n != maxParseErrors+2 || !errors.Is(parsed.problems[n-1], errTooManyErrors) || !parsed.unparsed || len(parsed.objects) != 1 {
			t.Errorf("%s: %d problems, objects %v", name, n, parsed.objects)
		}
	}
}
