package manifests

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/sync"
	"kube-vmap/sync/source/convert/converttest"
)

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
