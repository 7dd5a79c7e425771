package proxy

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"kube-vmap/integration/lab"
)

// folder is a folder of manifests.
type folder struct {
	t     *testing.T
	dir   string
	hosts map[string]*lab.Host
}

// newFolder makes a folder for Services whose endpoints are hosts of the lab.
func newFolder(t *testing.T, l *lab.Lab) *folder {
	f := &folder{t: t, dir: t.TempDir(), hosts: map[string]*lab.Host{}}
	for _, h := range l.Hosts() {
		f.hosts[h.Name] = h
	}
	return f
}

// put describes Services, all in one file; none make the file an empty list.
func (f *folder) put(name string, services ...service) {
	f.t.Helper()
	var objects []any
	for _, s := range services {
		objects = append(objects, s.objects(f.hosts)...)
	}
	f.write(name, text(f.t, objects...))
}

// write puts a file in place as careful programs do; see replace.
func (f *folder) write(name string, content []byte) {
	f.t.Helper()
	if err := f.replace(name, content); err != nil {
		f.t.Fatal(err)
	}
}

// replace puts a file in place at once: written under another name, which then
// becomes this one.
func (f *folder) replace(name string, content []byte) error {
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (f *folder) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// text is the objects as YAML documents.
func text(t *testing.T, objects ...any) []byte {
	t.Helper()
	out := bytes.NewBufferString("# written by a test\n")
	for _, o := range objects {
		doc, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(doc)
	}
	return out.Bytes()
}
