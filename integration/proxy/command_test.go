package proxy

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
)

// unprivileged has the rights of an ordinary user.
var unprivileged = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}

// contained is root in another user namespace, which does not own the node's network
// namespace: like a container without privileges.
var contained = &syscall.SysProcAttr{
	Cloneflags:  syscall.CLONE_NEWUSER,
	UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
	GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
}

// configurationWarning matches warnings about the configuration, which come before an
// error and may explain it.
var configurationWarning = regexp.MustCompile(`(?m)^.* level=WARN msg=configuration .*\n`)

func TestStartErrorsAreOneLine(t *testing.T) {
	l, f := newScene(t)
	f.Put("web", daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1"})
	missing := filepath.Join(f.Dir(), "missing")
	public := filepath.Dir(daemon.Program(t)) // readable without privileges
	before := generation(t, l)
	for _, c := range []struct {
		name   string
		rights *syscall.SysProcAttr
		args   []string
		wants  []string
	}{
		{"no arguments", nil, nil, []string{"--kubeconfig", "--master"}},
		{"missing folder", nil, []string{"--manifests", missing}, []string{missing, "no such file"}},
		{"unknown flag", nil, []string{"--manifest", f.Dir()}, []string{"--manifest"}},
		{"unknown command", nil, []string{"cleanupp"}, []string{"cleanupp"}},
		{"no permission as a user", unprivileged, []string{"--manifests", public}, []string{"permission", "CAP_NET_ADMIN"}},
		{"no permission in a container", contained, []string{"--manifests", public}, []string{"permission", "CAP_NET_ADMIN"}},
		{"no permission to clean up", unprivileged, []string{"cleanup"}, []string{"permission", "CAP_NET_ADMIN"}},
		{"missing configuration", nil, []string{"--config", missing}, []string{"--config", missing}},
		{"configuration cannot be written", nil, []string{"--write-config-to", missing + "/file"}, []string{"--write-config-to", missing}},
		{"nothing to render", nil, []string{"render"}, []string{"no kube-vmap answers"}},
		{"missing folder to render", nil, []string{"render", "--manifests", missing}, []string{missing, "no such file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := daemon.RunAs(t, l.Node.Host, c.rights, c.args...)
			if out.ExitCode != 1 || out.Stdout != "" {
				t.Errorf("%v, want exit code 1 and no output", out)
			}
			out.Stderr = configurationWarning.ReplaceAllString(out.Stderr, "")
			if strings.Count(out.Stderr, "\n") != 1 || !strings.HasPrefix(out.Stderr, "kube-vmap: ") {
				t.Errorf("want one line that begins with kube-vmap:\n%s", out.Stderr)
			}
			for _, want := range c.wants {
				if !strings.Contains(out.Stderr, want) {
					t.Errorf("the line does not name %q:\n%s", want, out.Stderr)
				}
			}
		})
	}
	if generation(t, l) != before {
		t.Error("the rule set was changed")
	}
}

// TestRenderNamesSkippedObjects also checks that all other objects are printed.
func TestRenderNamesSkippedObjects(t *testing.T) {
	l, f := newScene(t)
	all := []daemon.Service{
		{Name: "good-0", Number: 1, EndpointSpec: "pod-1"}, {Name: "good-1", Number: 2, EndpointSpec: "pod-1"},
	}
	for i, bad := range []string{"}{ %%% no: \tyaml [", "apiVersion: v1\nkind: Service\nspec: {clusterIP: 10.96.9.1}"} {
		f.Write(fmt.Sprint(i), fmt.Appendf(f.Text(all[i]), "---\n%s\n", bad)) // after a Service and its slices
	}
	out := daemon.Run(t, l.Node.Host, "render", "--manifests", f.Dir(), "--hostname-override", "node-1")
	if out.ExitCode != 1 {
		t.Errorf("exit code %d, want 1", out.ExitCode)
	}
	for i := range all {
		if place := fmt.Sprintf("%s/%d.yaml: document 4: ", f.Dir(), i); !strings.Contains(out.Stderr, place) {
			t.Errorf("%q is not named in\n%s", place, out.Stderr)
		}
	}
	for _, s := range all {
		if comment := fmt.Sprintf("comment %q : goto", "default/"+s.Name+":tcp-0"); !strings.Contains(out.Stdout, comment) {
			t.Errorf("%s is not printed", s.Name)
		}
	}
}

// foreignTables are tables of other programs, as similar to ours as possible.
var foreignTables = strings.Join([]string{
	"table ip kube-vmap-2 { chain nat-prerouting { type nat hook prerouting priority dstnat; counter; }; chain ep-0 { accept; }; }",
	"table inet kube-vmap { set cluster-ips { type ipv4_addr; elements = { 192.0.2.7 }; }; chain c { ip daddr @cluster-ips accept; }; }",
	"table arp kube-vmap { chain c { }; }",
	"table ip kube-proxy-other { map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }; }",
	"table ip6 filter { chain forward { type filter hook forward priority filter; policy accept; }; }",
}, "\n")

func TestCleanupRemovesOnlyOurTables(t *testing.T) {
	l, f := newScene(t)
	nft := func(command string) string { t.Helper(); return labtest.Run(t, l.Node.Host, "", "nft", command) }
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1 pod-2"}
	f.Put("web", s)
	nft(foreignTables)
	before := nft("list ruleset")

	d := start(t, l, f)
	s.EndpointSpec = "pod-1"
	d.After(func() { f.Put("web", s) })
	e := d.Logged(0, "starting", func(process.Entry) bool { return true })
	if out := daemon.Run(t, l.Node.Host, "cleanup", "--force"); e["protected"] == "true" &&
		(out.ExitCode != 1 || !strings.Contains(out.Stderr, "belongs to another program")) {
		t.Errorf("cleanup beside the proxy: %v", out)
	}
	d.Stop()

	cleanup := func(want string, args ...string) {
		t.Helper()
		out := daemon.Run(t, l.Node.Host, args...)
		if out.ExitCode != 0 || out.Stdout != "" || strings.Count(out.Stderr, "\n") != 1 || !strings.Contains(out.Stderr, want) {
			t.Errorf("%v: %v, want %q in the log", args, out, want)
		}
	}
	cleanup(`level=INFO msg="tables removed" tables="[ip kube-vmap ip6 kube-vmap]"`, "cleanup", "--force")
	if after := nft("list ruleset"); after != before {
		t.Errorf("the rule set was\n%s\nand after cleanup is\n%s", before, after)
	}
	written := generation(t, l)
	cleanup("nothing to remove", "cleanup")
	cleanup("nothing to remove", "--cleanup")
	if generation(t, l) != written {
		t.Error("cleanup wrote although no tables were left")
	}
	nft("add table ip6 kube-vmap")
	cleanup(`"level":"INFO","msg":"tables removed","tables":["ip6 kube-vmap"]`, "--cleanup", "--logging-format=json")
}

// TestLinkerCanDropUnusedMethods checks that no templates are linked in: they call
// methods by names that the linker cannot know, so that it keeps all methods. With
// Kubernetes' clients, these are 27 MB.
func TestLinkerCanDropUnusedMethods(t *testing.T) {
	file, err := elf.Open(daemon.Program(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == "text/template.(*state).evalField" || s.Name == "html/template.(*Template).Execute" {
			t.Errorf("%s is linked in", s.Name)
		}
	}
}
