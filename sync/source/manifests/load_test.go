package manifests

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/sync"
	"kube-vmap/sync/source/convert/converttest"
)

// lines returns events, one per line.
func lines(events []sync.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%T %+v\n", e, e)
	}
	return b.String()
}

// messages returns errors, one per line.
func messages(errs []error) string {
	var b strings.Builder
	for _, err := range errs {
		b.WriteString(strings.ReplaceAll(err.Error(), "\n", " ") + "\n")
	}
	return b.String()
}

func TestLoad(t *testing.T) {
	events, errs := Load("testdata/cluster", "worker-1")
	if len(errs) > 0 {
		t.Error(messages(errs))
	}
	want, err := os.ReadFile("testdata/cluster.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), lines(events)); diff != "" {
		t.Errorf("testdata/cluster.golden, -want +got\n%s", diff)
	}
}

func TestInvalidManifestsAreReported(t *testing.T) {
	events, errs := Load("testdata/garbled", "worker-1")
	var got []string
	for _, e := range events {
		if s, ok := e.(sync.SetService); ok {
			got = append(got, s.Service.Name.Name+" "+s.Service.ClusterIPs[0].String())
		}
	}
	want := []string{"doubtful 10.96.0.5", "good 10.96.0.1", "listed 10.96.0.8"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Services, -want +got\n%s", diff)
	}
	file := filepath.Join("testdata", "garbled", "services.yaml: ")
	wantErrs := []string{
		"document 2: Service default/mistyped: json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
		"document 3: Service default/impossible: spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
		"document 3: Service default/impossible: spec.ports: Required value: a Service needs a usable port",
		"document 4: yaml: line 33: found unexpected end of stream",
		"document 5: Service default/doubtful: yaml: unmarshal errors:   line 42: key \"sessionAffinity\" already set in map",
		"document 5: Service default/doubtful: unknown field \"spec.clusterIp\"",
		"document 7: not an object",
		"document 8: apiVersion: Required value",
		"document 9: metadata.name: Required value: Service without a name",
		"document 10: items[0]: not an object",
		"document 10: Service default/listed: spec.ports[0].name: Required value: a Service of several ports must name them",
		"document 10: Service default/listed: spec.ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
		"document 6: Service default/good: not used: already described by " + strings.TrimSuffix(file, ": ") + ", document 1",
	}
	for i := range wantErrs {
		wantErrs[i] = file + wantErrs[i] + "\n"
	}
	if diff := cmp.Diff(strings.Join(wantErrs, ""), messages(errs)); diff != "" {
		t.Errorf("errors, -want +got\n%s", diff)
	}
	var manifest *Error
	var invalid *field.Error
	if !errors.As(errs[1], &invalid) || invalid.Field != "spec.ports[0].port" || !errors.As(errs[5], &manifest) || !manifest.Warning {
		t.Errorf("an invalid field is %v, an unknown one no warning: %v", invalid, manifest)
	}
}

func TestLoadMissingPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing")
	events, errs := Load(path, "worker-1")
	if events != nil || len(errs) != 1 || !errors.Is(errs[0], os.ErrNotExist) {
		t.Errorf("Load: events %v, errors %v", events, errs)
	}
	out := make(chan []sync.Event)
	if err := New(path, "worker-1", slog.New(slog.DiscardHandler)).Run(t.Context(), out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run: %v", err)
	}
}

// TestFirstDocumentOfAnObjectCounts has files that cannot be read between those with the object.
func TestFirstDocumentOfAnObjectCounts(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yaml"), serviceText("web", "10.96.0.11"))
	write(t, filepath.Join(dir, "a.yaml"), serviceText("web", "10.96.0.10"))
	write(t, filepath.Join(dir, "c.json"), `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.12", "ports": [{"port": 80}]}}`)
	must(t, os.Symlink("nowhere", filepath.Join(dir, "a-dangling.yaml")))
	must(t, os.Mkdir(filepath.Join(dir, "a-folder.yaml"), 0o700))
	events, errs := Load(dir, "worker-1")
	if got := events[1].(sync.SetService).Service.ClusterIPs; got[0] != netip.MustParseAddr("10.96.0.10") || len(events) != 2 {
		t.Errorf("got %v of %v", got, events)
	}
	want := fmt.Sprintf(`%[1]s/a-dangling.yaml: no such file or directory
%[1]s/b.yaml: document 1: Service default/web: not used: already described by %[1]s/a.yaml, document 1
%[1]s/c.json: document 1: Service default/web: not used: already described by %[1]s/a.yaml, document 1
`, dir)
	if diff := cmp.Diff(want, messages(errs)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestCRLFLineNumbers(t *testing.T) {
	text := strings.ReplaceAll(serviceText("web", "10.96.0.10")+"---\na: [\n", "\n", "\r\n")
	p := newParser("worker-1").parse("file", []byte(text))
	if len(p.objects) != 1 || len(p.problems) != 1 || !strings.Contains(p.problems[0].Error(), "line 10") {
		t.Errorf("objects %v, problems %v", p.objects, p.problems)
	}
}

func serviceText(name, ip string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata:
  name: %s
spec:
  clusterIP: %s
  ports:
  - port: 80
`, name, ip)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

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

// FuzzManifest parses any bytes as a file. Nothing panics, and the results are well
// formed.
func FuzzManifest(f *testing.F) {
	for _, pattern := range []string{"testdata/cluster/*", "testdata/garbled/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatal("no seeds", err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	for _, text := range []string{
		"kind: ServiceList\napiVersion: v1\nitems:\n- metadata: {name: a}\n- {metadata: {name: b}, kind: Node}\n- 1\n- []\n",
		"kind: List\napiVersion: v1\nitems: {a: b}\n---\nkind: List\napiVersion: v1\nitems:\n- {kind: List, apiVersion: v1, items: []}\n",
		"---\n---\n# nothing\n--- !!map {}\n...\n---\n\"a\n",
		strings.Repeat("[", 2000),
		strings.Repeat("{a: ", 500) + strings.Repeat("}", 500),
		strings.Repeat("- ", 500) + "a",
		"kind: Service\napiVersion: v1\nmetadata: &m {name: &n web}\nspec: {clusterIP: 10.96.0.1, ports: [{port: 80, name: *n}]}\nx: [*m, *m, *n]\n",
		"a: &a " + strings.Repeat("x", 1000) + "\nb: &b [" + strings.Repeat("*a,", 100) + "]\nc: [" + strings.Repeat("*b,", 100) + "]\n",
		"a: &a [*a]\n",
		"<<: &a {kind: Service, apiVersion: v1}\nmetadata: {<<: *a, name: web}\n",
	} {
		f.Add([]byte(text))
	}
	p := newParser("worker-1")
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed := p.parse("file", text)
		for _, problem := range parsed.problems {
			if problem.Error() == "" || problem.Document == 0 {
				t.Errorf("an error without a place: %v", problem)
			}
		}
		now, _ := parsed.merge(nil)
		for _, event := range changes(nil, now, "worker-1") {
			checkEvent(t, event)
		}
		if events := changes(now, now, "worker-1"); len(events) > 0 {
			t.Errorf("differs from itself: %v", events)
		}
		kept, _ := p.parse("file", []byte("garbage: [")).merge(now)
		for _, event := range changes(now, kept, "worker-1") {
			if set, ok := event.(sync.SetService); !ok || set.Service.Created != math.MaxInt64 {
				t.Errorf("garbage changed something: %v", event)
			}
		}
		for _, event := range changes(now, objects{}, "worker-1") {
			switch event.(type) {
			case sync.SetService, sync.SetSlice:
				t.Errorf("without files, still there: %v", event)
			}
		}
	})
}

func checkEvent(t *testing.T, event sync.Event) {
	switch e := event.(type) {
	case sync.SetService:
		converttest.CheckService(t, e.Service)
	case sync.SetSlice:
		converttest.CheckSlice(t, e.Slice)
	case sync.SetNode:
		converttest.CheckNames(t, e.Node.Name, e.Node.Zone)
	case sync.SetServiceCIDRs:
		converttest.CheckPrefixes(t, e.CIDRs)
	default:
		t.Errorf("%T in a first burst", event)
	}
}
