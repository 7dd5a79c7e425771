package proxy

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

// invalid are documents that cannot be used, and what the log must contain. Each comes
// after a valid Service in its file.
var invalid = []struct {
	name, text string
	object     string
	wants      []string // in the error
}{
	{
		name: "garbage", text: "}{ %%% no: \tyaml [",
		wants: []string{"line"},
	},
	{
		name: "truncated", text: `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ha`,
		wants: []string{"line"},
	},
	{
		name: "not an object", text: "just words",
		wants: []string{"not an object"},
	},
	{
		name: "no kind", text: "apiVersion: v1\nmetadata: {name: x}",
		wants: []string{"kind"},
	},
	{
		name: "no name", text: "apiVersion: v1\nkind: Service\nspec: {clusterIP: 10.96.9.1}",
		wants: []string{"metadata.name"},
	},
	{
		name: "invalid address", object: "Service default/x",
		text:  "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {clusterIP: 10.96.0.300, ports: [{port: 80}]}",
		wants: []string{"spec.clusterIPs[0]", "10.96.0.300"},
	},
	{
		name: "port 0", object: "Service default/x",
		text:  "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {clusterIP: 10.96.9.1, ports: [{port: 0}]}",
		wants: []string{"spec.ports[0].port", "0"},
	},
	{
		name: "port is a word", object: "Service default/x",
		text:  "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {clusterIP: 10.96.9.1, ports: [{port: http}]}",
		wants: []string{"spec.ports.port"},
	},
	{
		name: "unsupported protocol", object: "Service default/x",
		text:  "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {clusterIP: 10.96.9.1, ports: [{port: 80, protocol: ICMP}]}",
		wants: []string{"spec.ports[0].protocol", "ICMP"},
	},
	{
		name: "invalid policy", object: "Service default/x",
		text:  "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {clusterIP: 10.96.9.1, internalTrafficPolicy: Sometimes, ports: [{port: 80}]}",
		wants: []string{"spec.internalTrafficPolicy", "Sometimes"},
	},
	{
		name: "name with a quote", object: `Service default/x"`,
		text:  "apiVersion: v1\nkind: Service\nmetadata: {name: 'x\"'}\nspec: {clusterIP: 10.96.9.1, ports: [{port: 80}]}",
		wants: []string{"metadata.name"},
	},
	{
		name: "IPv6 endpoint in IPv4 slice", object: "EndpointSlice default/x",
		text: "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: x, labels: {kubernetes.io/service-name: x}}\n" +
			"addressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: ['fd00::1']}]",
		wants: []string{"endpoints[0].addresses[0]", "fd00::1"},
	},
	{
		name: "endpoint port out of range", object: "EndpointSlice default/x",
		text: "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: x, labels: {kubernetes.io/service-name: x}}\n" +
			"addressType: IPv4\nports: [{port: 65536}]\nendpoints: [{addresses: [10.244.1.2]}]",
		wants: []string{"ports[0].port", "65536"},
	},
	{
		name: "invalid range", object: "ServiceCIDR x",
		text:  "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: x}\nspec: {cidrs: [10.96.0.0/40]}",
		wants: []string{"spec.cidrs[0]", "10.96.0.0/40"},
	},
}

// invalidFiles writes each invalid document into a file of its own, after a valid
// Service, and returns the Services.
func invalidFiles(f *daemon.Folder, endpoints string) []daemon.Service {
	var all []daemon.Service
	for i, b := range invalid {
		s := daemon.Service{Name: fmt.Sprintf("good-%d", i), Number: i + 1, EndpointSpec: endpoints}
		good := f.Text(s)
		f.Write(fmt.Sprint(i), fmt.Appendf(good, "---\n%s\n", b.text))
		all = append(all, s)
	}
	return all
}

// invalidDocument is the number of the invalid document in its file: it comes after a
// Service and a slice of each family.
const invalidDocument = 4

func TestInvalidManifestsAreReportedAndOthersServed(t *testing.T) {
	l := newLab(t)
	f := daemon.EmptyFolder(t, l)
	named := func(d *daemon.Daemon, from int) {
		for i, b := range invalid {
			t.Run(b.name, func(t *testing.T) {
				d.Logged(from, "invalid manifest", func(e process.Entry) bool {
					for _, want := range b.wants {
						if !strings.Contains(e["err"], want) {
							return false
						}
					}
					file := filepath.Join(f.Dir(), fmt.Sprintf("%d.yaml", i))
					return e["file"] == file && e.Number("document") == invalidDocument && e["object"] == b.object
				})
			})
		}
	}
	goodAnswer := func(all []daemon.Service, by string) {
		for _, s := range all {
			w := daemon.Transports()[0]
			becomes(t, l.Pods[2].Host, w, s.ClusterAddrPort(w.Family), by)
		}
		only(t, l, all[0], by)
		only(t, l, all[len(all)-1], by)
	}

	all := invalidFiles(f, "pod-1")
	d := start(t, l.Node, f, daemon.PodRanges)
	named(d, 0)
	goodAnswer(all, "pod-1")

	before := d.Log.Len()
	all = invalidFiles(f, "pod-2") // what is good in those files goes on changing
	named(d, before)
	goodAnswer(all, "pod-2")
}

// TestServiceThatBecomesInvalidIsNotServed tests invalid versions of a manifest. Only text
// in which no Service is recognized leaves the Service as it was.
func TestServiceThatBecomesInvalidIsNotServed(t *testing.T) {
	l, f, w := newScene(t)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1"}
	good := string(f.Text(s))
	f.Write("web", []byte(good))
	d := startAndSettle(t, w, l, f, daemon.PodRanges)
	for _, c := range []struct {
		name, text, message string
		served              bool
	}{
		{"garbage", "}{ %%%", "invalid manifest", true},
		{"empty", "", "manifest warning", true},
		{"invalid cluster IP", strings.ReplaceAll(good, "10.96.0.1", "10.96.0.256"), "invalid manifest", false},
		{"ports out of range", strings.ReplaceAll(good, "port: 80", "port: 99999999"), "invalid manifest", false},
		{"wrong type", strings.ReplaceAll(good, "port: 80", "port: {}"), "invalid manifest", false},
		{"invalid addresses", strings.ReplaceAll(good, "10.244.1", "10.244.1111"), "invalid manifest", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, generation := d.Log.Len(), w.generation()
			f.Write("web", []byte(c.text))
			d.Logged(before, c.message, func(e process.Entry) bool { return e["file"] == filepath.Join(f.Dir(), "web.yaml") })
			if c.served {
				only(t, l, s, "pod-1")
				if now := w.generation(); now != generation {
					t.Errorf("generation %d became %d: something was written", generation, now)
				}
				return
			}
			for _, way := range daemon.Transports() {
				if way.Family != model.IPv4 {
					continue // of the endpoints, only those of IPv4 are bad
				}
				eventually.Succeeds(t, way.String()+" is not served", func() error {
					a, err := l.Pods[1].AskFresh(way.Protocol, netip.Addr{}, s.ClusterAddrPort(way.Family), silence)
					if err == nil && a.Outcome == lab.Answered {
						err = fmt.Errorf("%s", a)
					}
					return err
				})
			}
			f.Write("web", []byte(good))
			w.settles(f, daemon.PodRanges)
			only(t, l, s, "pod-1")
		})
	}
	s.EndpointSpec = "pod-2"
	f.Put("web", s)
	w.settles(f, daemon.PodRanges)
	only(t, l, s, "pod-2")
}

// TestFileChangesAreNoticedHoweverWritten changes a manifest in the ways in
// which programs change files.
func TestFileChangesAreNoticedHoweverWritten(t *testing.T) {
	l := newLab(t)
	tcp := daemon.Transports()[0]
	s := daemon.Service{Name: "web", Number: 1}
	given := func(f *daemon.Folder, endpoints string) []byte {
		s := s
		s.EndpointSpec = endpoints
		return f.Text(s)
	}
	for _, c := range []struct {
		name  string
		write func(*testing.T, *daemon.Folder, []byte)
		path  string // argument of --manifests, below the folder
	}{
		{"in place", writeInPlace, ""},
		{"in place, in pieces", writeInPieces, ""},
		{"by renaming", func(_ *testing.T, f *daemon.Folder, b []byte) { f.Write("web", b) }, ""},
		{"by removing it first", writeAfterRemoval, ""},
		{"as a ConfigMap is mounted", writeAsConfigMap, ""},
		{"in place, one file given", writeInPlace, "web.yaml"},
		{"by renaming, one file given", func(_ *testing.T, f *daemon.Folder, b []byte) { f.Write("web", b) }, "web.yaml"},
		{"as a ConfigMap is mounted, one file given", writeAsConfigMap, "web.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := daemon.EmptyFolder(t, l)
			c.write(t, f, given(f, "pod-1"))
			d := launch(daemon.Launch{Node: l.Node, Path: filepath.Join(f.Dir(), c.path)}, []string{daemon.PodRanges}).Start(t)
			for _, by := range []string{"pod-1", "pod-2", "remote-1", "pod-1"} {
				c.write(t, f, given(f, by))
				becomes(t, l.Pods[2].Host, tcp, s.ClusterAddrPort(tcp.Family), by)
			}
			d.Stop()
		})
	}
}

func writeInPlace(t *testing.T, f *daemon.Folder, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.Dir(), "web.yaml"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// writeInPieces writes a file that lacks documents for a moment.
func writeInPieces(t *testing.T, f *daemon.Folder, b []byte) {
	t.Helper()
	file, err := os.Create(filepath.Join(f.Dir(), "web.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for len(b) > 0 {
		n := min(100, len(b))
		if _, err := file.Write(b[:n]); err != nil {
			t.Fatal(err)
		}
		b = b[n:]
	}
}

func writeAfterRemoval(t *testing.T, f *daemon.Folder, b []byte) {
	t.Helper()
	_ = os.Remove(filepath.Join(f.Dir(), "web.yaml"))
	writeInPlace(t, f, b)
}

// writeAsConfigMap writes like the kubelet: the file is a link into ..data, which is a
// link to the folder of a version, and is replaced atomically.
func writeAsConfigMap(t *testing.T, f *daemon.Folder, b []byte) {
	t.Helper()
	in := func(name string) string { return filepath.Join(f.Dir(), name) }
	old, err := os.Readlink(in("..data"))
	first := err != nil
	version := "..odd"
	if old == version {
		version = "..even"
	}
	steps := []func() error{
		func() error { return os.Mkdir(in(version), 0o755) },
		func() error { return os.WriteFile(filepath.Join(in(version), "web.yaml"), b, 0o644) },
		func() error { return os.Symlink(version, in("..data_tmp")) },
		func() error { return os.Rename(in("..data_tmp"), in("..data")) },
	}
	if first {
		steps = append(steps, func() error { return os.Symlink("..data/web.yaml", in("web.yaml")) })
	} else {
		steps = append(steps, func() error { return os.RemoveAll(in(old)) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}
