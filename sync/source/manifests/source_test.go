package manifests

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen/listentest"
)

// follower runs a Source over a folder and adds up its events.
type follower struct {
	t      *testing.T
	dir    string
	bursts chan []sync.Event
	log    listentest.LogBuffer

	node     model.Node
	services map[string]string // name to first ClusterIP
	problems map[string]string // object to error
}

// follow starts to follow the manifests at path and waits for the first burst.
func follow(t *testing.T, path string) *follower {
	f := start(t, path)
	if f.next(); f.node.Name != "worker-1" {
		t.Errorf("the first burst has the node %+v", f.node)
	}
	return f
}

// start starts to follow the manifests at path.
func start(t *testing.T, path string) *follower {
	f := &follower{t: t, dir: path, bursts: make(chan []sync.Event), services: map[string]string{}, problems: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	manifests := New(path, "worker-1", f.log.Log())
	go func() { done <- manifests.Run(ctx, f.bursts) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return f
}

// next adds up the next burst and returns it.
func (f *follower) next() []sync.Event {
	f.t.Helper()
	select {
	case events := <-f.bursts:
		for _, event := range events {
			f.add(event)
		}
		return events
	case <-time.After(20 * time.Second):
		f.t.Fatalf("nothing happens; services: %v", f.services)
		return nil
	}
}

func (f *follower) add(event sync.Event) {
	switch e := event.(type) {
	case sync.SetNode:
		f.node = e.Node
	case sync.SetService:
		f.services[e.Service.Name.Name] = e.Service.ClusterIPs[0].String()
	case sync.DeleteService:
		delete(f.services, e.Name.Name)
	case sync.SetProblem:
		if delete(f.problems, e.Object.String()); e.Err != nil {
			f.problems[e.Object.String()] = e.Err.Error()
		}
	}
}

// until reads bursts until the Services are these, each "name ip".
func (f *follower) until(want ...string) {
	f.t.Helper()
	for !slices.Equal(f.list(), want) {
		f.next()
	}
}

// untilLogged waits for a text in the log.
func (f *follower) untilLogged(text string) {
	f.t.Helper()
	listentest.Eventually(f.t, text, func() bool { return strings.Contains(f.log.String(), text) })
}

// stays checks that a change of files had no effect: until another file's change, the Services are
// the same.
func (f *follower) stays(want ...string) {
	f.t.Helper()
	const marker = "zz-marker"
	f.write(marker+".yaml", serviceText(marker, "10.96.9.9"))
	for f.services[marker] == "" {
		f.next()
		if got := slices.DeleteFunc(f.list(), func(s string) bool { return strings.HasPrefix(s, marker) }); !slices.Equal(got, want) {
			f.t.Errorf("got %v, want %v", got, want)
		}
	}
	f.remove(marker + ".yaml")
	f.until(want...)
}

func (f *follower) list() []string {
	var out []string
	for name, ip := range f.services {
		out = append(out, name+" "+ip)
	}
	slices.Sort(out)
	return out
}

func (f *follower) write(name, text string) {
	f.t.Helper()
	write(f.t, filepath.Join(f.dir, name), text)
}

func (f *follower) remove(name string) {
	f.t.Helper()
	must(f.t, os.Remove(filepath.Join(f.dir, name)))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreAddedChangedAndRemoved(t *testing.T) {
	f := follow(t, t.TempDir())
	f.write("web.yaml", serviceText("web", "10.96.0.10"))
	f.until("web 10.96.0.10")
	f.write("db.yaml", serviceText("db", "10.96.0.11"))
	f.until("db 10.96.0.11", "web 10.96.0.10")
	f.write("web.yaml", serviceText("web", "10.96.0.12"))
	f.until("db 10.96.0.11", "web 10.96.0.12")
	f.write("web.yaml", "# the same with a comment\n"+serviceText("web", "10.96.0.12"))
	f.stays("db 10.96.0.11", "web 10.96.0.12")
	f.remove("db.yaml")
	f.until("web 10.96.0.12")
}

// TestConfigMapVolumeUpdate updates files as the kubelet updates a ConfigMap's: all are
// links into a folder that is itself a link. So is the folder that is followed.
func TestConfigMapVolumeUpdate(t *testing.T) {
	dir := t.TempDir()
	swap := func(version, text string) {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "web.yaml"), text)
		must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	swap("..2026_01", serviceText("web", "10.96.0.10"))
	must(t, os.Symlink("..data/web.yaml", filepath.Join(dir, "web.yaml")))
	link := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Symlink(dir, link))
	f := follow(t, link)
	f.until("web 10.96.0.10")
	swap("..2026_02", serviceText("web", "10.96.0.11"))
	must(t, os.RemoveAll(filepath.Join(dir, "..2026_01")))
	f.until("web 10.96.0.11")
	swap("..2026_03", serviceText("web", "10.96.0.12"))
	f.until("web 10.96.0.12")
}

func TestTruncatedFileKeepsItsObjects(t *testing.T) {
	f := follow(t, t.TempDir())
	f.write("a.yaml", serviceText("web", "10.96.0.10"))
	f.until("web 10.96.0.10")
	f.write("a.yaml", "")
	if set, ok := f.next()[0].(sync.SetService); !ok || set.Service.Created != math.MaxInt64 {
		t.Errorf("its Service keeps its age against other files: %+v", set)
	}
	f.stays("web 10.96.0.10")
	f.write("a.yaml", "# empty now\n")
	f.until()
}

// TestUnparsableFileKeepsItsObjects tests also that Services of such a file become the
// youngest, and hold no address against others.
func TestUnparsableFileKeepsItsObjects(t *testing.T) {
	f := follow(t, t.TempDir())
	f.write("a.yaml", serviceText("web", "10.96.0.10")+"---\n"+serviceText("db", "10.96.0.11"))
	f.until("db 10.96.0.11", "web 10.96.0.10")
	f.write("a.yaml", "garbage: [")
	for _, event := range f.next() {
		if set, ok := event.(sync.SetService); ok && set.Service.Created != math.MaxInt64 {
			t.Errorf("event: %v", event)
		}
	}
	f.stays("db 10.96.0.11", "web 10.96.0.10")
	f.write("a.yaml", serviceText("web", "10.96.0.12")+"---\ngarbage: [")
	f.until("db 10.96.0.11", "web 10.96.0.12")
	f.write("a.yaml", serviceText("web", "10.96.0.12"))
	f.until("web 10.96.0.12")
}

// TestProblemsOfObjectsAndFiles has objects that cannot be used, and files that cannot be read, until
// they are mended.
func TestProblemsOfObjectsAndFiles(t *testing.T) {
	f := follow(t, t.TempDir())
	f.write("a.yaml", serviceText("web", "10.96.0.10")+"---\n"+strings.Replace(serviceText("db", "10.96.0.11"), "port: 80", "port: 0", 1))
	f.until("web 10.96.0.10")
	f.write("b.yaml", "garbage: [\n---\n- 1\n---\n"+serviceText("web", "10.96.0.11"))
	must(t, os.Symlink("nowhere", filepath.Join(f.dir, "c.yaml")))
	for len(f.problems) < 4 {
		f.next()
	}
	dir := f.dir + string(filepath.Separator)
	want := map[string]string{
		"Service default/db": "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive (" + dir +
			"a.yaml, document 2); 1 more",
		"Service default/web":    "not used: already described by " + dir + "a.yaml, document 1 (" + dir + "b.yaml, document 3)",
		"File " + dir + "b.yaml": "yaml: line 1: did not find expected node content; 1 more",
		"File " + dir + "c.yaml": "no such file or directory",
	}
	if diff := cmp.Diff(want, f.problems); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	f.write("a.yaml", serviceText("web", "10.96.0.10"))
	f.remove("b.yaml")
	f.remove("c.yaml")
	for len(f.problems) > 0 {
		f.next()
	}
}

// TestUnreadableFileKeepsItsProblems has an object that cannot be used, in a file that cannot be read
// for a while.
func TestUnreadableFileKeepsItsProblems(t *testing.T) {
	f := follow(t, t.TempDir())
	text := strings.Replace(serviceText("db", "10.96.0.11"), "port: 80", "port: 0", 1)
	f.write("a.yaml", text)
	for len(f.problems) < 1 {
		f.next()
	}
	must(t, os.Symlink("nowhere", filepath.Join(f.dir, "a.tmp")))
	must(t, os.Rename(filepath.Join(f.dir, "a.tmp"), filepath.Join(f.dir, "a.yaml")))
	for f.problems["File "+filepath.Join(f.dir, "a.yaml")] == "" {
		f.next()
	}
	if f.problems["Service default/db"] == "" {
		t.Errorf("the problem of the object has ended: %v", f.problems)
	}
	f.write("a.yaml", strings.Replace(text, "port: 0", "port: 80", 1))
	f.until("db 10.96.0.11")
}

func TestRefusedObjectIsRemoved(t *testing.T) {
	f := follow(t, t.TempDir())
	f.write("a.yaml", serviceText("web", "10.96.0.10")+"---\n"+serviceText("db", "10.96.0.11"))
	f.until("db 10.96.0.11", "web 10.96.0.10")
	for _, ip := range []string{"300.96.0.10", "{not: text}"} {
		f.write("a.yaml", serviceText("web", ip))
		f.until()
		f.write("a.yaml", serviceText("web", "10.96.0.10")+"---\n"+serviceText("db", "10.96.0.11"))
		f.until("db 10.96.0.11", "web 10.96.0.10")
	}
}

func TestFirstBurstWaitsForHalfWrittenFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, text := filepath.Join(t.TempDir(), "a.yaml"), serviceText("web", "10.96.0.10")
		write(t, path, text[:len(text)/3])
		f := start(t, path)
		synctest.Wait()
		write(t, path, text)
		if f.next(); !slices.Equal(f.list(), []string{"web 10.96.0.10"}) {
			t.Errorf("the first burst has %v", f.list())
		}
	})
}

func TestWarningsAreLoggedOncePerContent(t *testing.T) {
	f := follow(t, t.TempDir())
	f.write("a.yaml", serviceText("web", "10.96.0.10")+"  surprise: true\n")
	f.until("web 10.96.0.10")
	f.write("b.yaml", "apiVersion: v1\nkind: ConfigMap\n")
	f.stays("web 10.96.0.10")
	f.stays("web 10.96.0.10")
	for _, text := range []string{`level=WARN msg="manifest warning"`, `kinds="v1 ConfigMap"`} {
		if n := strings.Count(f.log.String(), text); n != 1 {
			t.Errorf("%d times %s:\n%s", n, text, f.log.String())
		}
	}
}

func TestFolderRemovedAndRestored(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "web.yaml"), serviceText("web", "10.96.0.10"))
	f := follow(t, dir)
	f.until("web 10.96.0.10")
	must(t, os.Rename(dir, dir+"-away"))
	f.untilLogged("manifests missing")
	if !slices.Equal(f.list(), []string{"web 10.96.0.10"}) {
		t.Errorf("got %v", f.list())
	}
	must(t, os.Mkdir(dir, 0o700))
	write(t, filepath.Join(dir, "db.yaml"), serviceText("db", "10.96.0.11"))
	f.until("db 10.96.0.11")
	f.untilLogged("manifests available again")
	f.write("web.yaml", serviceText("web", "10.96.0.12"))
	f.until("db 10.96.0.11", "web 10.96.0.12")
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o700))
	f.write("web.yaml", serviceText("web", "10.96.0.13"))
	f.until("web 10.96.0.13")
}

func TestFileRemovedAndRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.txt")
	write(t, path, serviceText("web", "10.96.0.10"))
	f := follow(t, path)
	f.until("web 10.96.0.10")
	must(t, os.Remove(path))
	f.untilLogged("manifests missing")
	write(t, path, serviceText("web", "10.96.0.11"))
	f.until("web 10.96.0.11")
}

func TestNode(t *testing.T) {
	f := follow(t, t.TempDir())
	f.write("node.yaml", `{apiVersion: v1, kind: Node, metadata: {name: worker-1, labels: {topology.kubernetes.io/zone: zone-a}}}`)
	f.next()
	const zone = "topology.kubernetes.io/zone"
	if want := (model.Node{Name: "worker-1", Zone: "zone-a", Labels: zone + "," + zone + "=zone-a"}); f.node != want {
		t.Errorf("got %v", f.node)
	}
	f.remove("node.yaml")
	f.next()
	if want := (model.Node{Name: "worker-1"}); f.node != want {
		t.Errorf("got %v", f.node)
	}
}

// TestChangeOfSameSizeAndTimeIsRead changes a file without its size and, as on file systems with a coarse
// clock, its time of change.
func TestChangeOfSameSizeAndTimeIsRead(t *testing.T) {
	f := follow(t, t.TempDir())
	f.write("web.yaml", serviceText("web", "10.96.0.10"))
	f.until("web 10.96.0.10")
	path := filepath.Join(f.dir, "web.yaml")
	before, err := os.Stat(path)
	must(t, err)
	f.write("web.yaml", serviceText("web", "10.96.0.11"))
	must(t, os.Chtimes(path, before.ModTime(), before.ModTime()))
	f.until("web 10.96.0.11")
}
