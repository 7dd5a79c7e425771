package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Folder is a folder of manifests. The endpoints of its Services are hosts of one
// lab.
type Folder struct {
	t     testing.TB
	dir   string
	hosts hosts
}

// NewFolder creates a folder with the ServiceCIDR and the Nodes of a lab, each in
// its [Zone]. It is removed with the test.
func NewFolder(t testing.TB, l *lab.Lab) *Folder {
	t.Helper()
	f := EmptyFolder(t, l)
	objects := []any{ServiceCIDR()}
	for _, n := range l.Nodes() {
		objects = append(objects, NodeObject(n, Zone(n)))
	}
	f.WriteObjects("cluster", objects...)
	return f
}

// EmptyFolder creates a folder without manifests. It is removed with the test.
func EmptyFolder(t testing.TB, l *lab.Lab) *Folder {
	t.Helper()
	f := &Folder{t: t, dir: t.TempDir(), hosts: hosts{}}
	for _, h := range l.Hosts() {
		f.hosts[h.Name] = h
	}
	return f
}

// Dir returns the path of the folder.
func (f *Folder) Dir() string { return f.dir }

// Put writes Services and their EndpointSlices into the file of that name, in
// place of what it contained. For the program, that is one change.
func (f *Folder) Put(name string, services ...Service) {
	f.t.Helper()
	f.WriteObjects(name, f.Objects(services...)...)
}

// Objects returns the Services with their EndpointSlices.
func (f *Folder) Objects(services ...Service) (objects []any) {
	for _, s := range services {
		objects = append(objects, s.object())
		for _, family := range model.Families {
			objects = append(objects, s.slices(f.hosts, family)...)
		}
	}
	return objects
}

// Text returns the YAML that [Folder.Put] writes.
func (f *Folder) Text(services ...Service) []byte {
	f.t.Helper()
	return f.encode(f.Objects(services...))
}

// WriteObjects writes objects into the file of that name, in place of what it
// contained.
func (f *Folder) WriteObjects(name string, objects ...any) {
	f.t.Helper()
	f.Write(name, f.encode(objects))
}

// Write writes text into the file of that name. See [Folder.Replace].
func (f *Folder) Write(name string, text []byte) {
	f.t.Helper()
	if err := f.Replace(name, text); err != nil {
		f.t.Fatal(err)
	}
}

// Replace replaces a file atomically: it writes another one and renames it. It is
// [Folder.Write] for goroutines, which cannot end the test.
func (f *Folder) Replace(name string, text []byte) error {
	path := filepath.Join(f.dir, name+".yaml")
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return fmt.Errorf("write manifests: %w", err)
	}
	return os.Rename(path+".new", path)
}

// Remove removes the file of that name.
func (f *Folder) Remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name+".yaml")); err != nil {
		f.t.Fatal(err)
	}
}

func (f *Folder) encode(objects []any) []byte {
	f.t.Helper()
	out := bytes.NewBufferString("# written by a test\n")
	for _, o := range objects {
		doc, err := yaml.Marshal(o)
		if err != nil {
			f.t.Fatalf("encode %T: %v", o, err)
		}
		out.WriteString("---\n")
		out.Write(doc)
	}
	return out.Bytes()
}

// ServiceCIDR returns the object with the ranges of ClusterIPs.
func ServiceCIDR() *networkingv1.ServiceCIDR {
	cidr := &networkingv1.ServiceCIDR{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"},
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
	}
	for _, f := range model.Families {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, lab.ServiceRanges[f].String())
	}
	return cidr
}

// Zone returns the zone that [NewFolder] gives a node.
func Zone(n *lab.Node) string { return "zone-of-" + n.Name }

// NodeObject returns the object of a node, in a zone if that is not empty.
func NodeObject(n *lab.Node, zone string) *corev1.Node {
	out := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
	}
	if zone != "" {
		out.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	}
	for _, f := range model.Families {
		out.Spec.PodCIDRs = append(out.Spec.PodCIDRs, n.PodRange(f).String())
		out.Status.Addresses = append(out.Status.Addresses, corev1.NodeAddress{
			Type: corev1.NodeInternalIP, Address: n.Addr(f).String(),
		})
	}
	out.Spec.PodCIDR = out.Spec.PodCIDRs[0]
	return out
}
