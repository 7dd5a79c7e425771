package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// Folder is a folder of manifests, with what a cluster has beside Services: the
// ranges of ClusterIPs, and the nodes.
type Folder struct {
	t   testing.TB
	dir string
}

// NewFolder makes a folder that is removed with the test.
func NewFolder(t testing.TB, l *lab.Lab) *Folder {
	t.Helper()
	f := &Folder{t: t, dir: t.TempDir()}
	f.write("cluster", cluster(l))
	return f
}

// Put describes Services, all in one file of that name, in place of what was in
// it. It is one change, however many they are.
func (f *Folder) Put(name string, services ...Service) {
	f.t.Helper()
	f.Write(name, f.Text(services...))
}

// Text is what [Folder.Put] writes of the Services.
func (f *Folder) Text(services ...Service) []byte {
	f.t.Helper()
	var objects []any
	for _, s := range services {
		objects = append(objects, s.objects()...)
	}
	text, err := encode(objects)
	if err != nil {
		f.t.Fatal(err)
	}
	return text
}

// Dir is where the manifests are.
func (f *Folder) Dir() string { return f.dir }

func (f *Folder) write(name string, objects []any) {
	f.t.Helper()
	text, err := encode(objects)
	if err != nil {
		f.t.Fatal(err)
	}
	f.Write(name, text)
}

// Write puts a file in place at once, as careful programs do: it is written
// under another name, which then becomes its own.
func (f *Folder) Write(name string, text []byte) {
	f.t.Helper()
	path := filepath.Join(f.dir, name+".yaml")
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.t.Fatal(err)
	}
}

// encode writes objects as YAML documents.
func encode(objects []any) ([]byte, error) {
	out := bytes.NewBufferString("# written by a test\n")
	for _, o := range objects {
		doc, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", o, err)
		}
		out.WriteString("---\n")
		out.Write(doc)
	}
	return out.Bytes(), nil
}

// cluster is what a lab is to a cluster.
func cluster(l *lab.Lab) []any {
	cidr := &networkingv1.ServiceCIDR{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"},
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
	}
	for _, f := range model.Families {
		cidr.Spec.CIDRs = append(cidr.Spec.CIDRs, lab.ServiceRanges[f].String())
	}
	objects := []any{cidr, node(l.Node)}
	if l.Remote != nil {
		objects = append(objects, node(l.Remote))
	}
	return objects
}

// Zone is where a node is.
func Zone(n *lab.Node) string { return "zone-of-" + n.Name }

// node is the Node object of a lab's node.
func node(n *lab.Node) *corev1.Node {
	out := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{corev1.LabelTopologyZone: Zone(n)}},
	}
	for _, f := range model.Families {
		out.Spec.PodCIDRs = append(out.Spec.PodCIDRs, n.PodRange(f).String())
		out.Status.Addresses = append(out.Status.Addresses, corev1.NodeAddress{
			Type: corev1.NodeInternalIP, Address: n.Addr(f).String(),
		})
	}
	return out
}
