package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// outcome is what a run of the program left.
type outcome struct {
	code           int
	stdout, stderr string
}

// String is for messages of tests.
func (o outcome) String() string {
	return fmt.Sprintf("exit code %d, stdout %q, stderr %q", o.code, o.stdout, o.stderr)
}

// run runs the program to its end.
func run(t *testing.T, h *lab.Host, args ...string) outcome {
	t.Helper()
	return runAs(t, h, nil, args...)
}

// runAs is run with other rights.
func runAs(t *testing.T, h *lab.Host, rights *syscall.SysProcAttr, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := h.Command(t.Context(), program(t), args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &stdout, &stderr, rights
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// nobody has the rights of an ordinary user.
var nobody = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}

// contained is root in a user namespace of its own, to which the node's network
// namespace does not belong: what a container without privileges can be.
var contained = &syscall.SysProcAttr{
	Cloneflags:  syscall.CLONE_NEWUSER,
	UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
	GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
}

// configurationWarning is a line about what may be meant otherwise, which comes
// before what is wrong: it may be the cause.
var configurationWarning = regexp.MustCompile(`(?m)^.* level=WARN msg=configuration .*\n`)

func TestWhatCannotWorkIsSaidInOneLine(t *testing.T) {
	l := newLab(t)
	w := watch(t, l.Node.Host)
	f := newFolder(t, l)
	f.put("web.yaml", service{name: "web", address: 1, endpoints: "pod-1"})
	missing := filepath.Join(f.dir, "missing")
	public := filepath.Dir(program(t)) // which a user without rights can look into
	generation := w.generation()
	for _, c := range []struct {
		says   string
		rights *syscall.SysProcAttr
		args   []string
		wants  []string
	}{
		{"nothing given", nil, nil, []string{"--kubeconfig", "--master"}},
		{"a folder that is not there", nil, []string{"--manifests", missing}, []string{missing, "no such file"}},
		{"a pod range that is none", nil, []string{"--manifests", f.dir, "--cluster-cidr", "10.244.0.0/33"}, []string{"--cluster-cidr", "10.244.0.0/33"}},
		{"two pod ranges of one family", nil, []string{"--manifests", f.dir, "--cluster-cidr", "10.0.0.0/8,10.1.0.0/16"}, []string{"--cluster-cidr", "at most one range of each IP family"}},
		{"a format of logs that is none", nil, []string{"--manifests", f.dir, "--logging-format", "xml"}, []string{"--logging-format", "xml"}},
		{"a flag that is none", nil, []string{"--manifest", f.dir}, []string{"--manifest"}},
		{"an argument", nil, []string{"--manifests", f.dir, "now"}, []string{"now"}},
		{"a command that is none", nil, []string{"cleanupp"}, []string{"cleanupp"}},
		{"an argument to cleanup", nil, []string{"cleanup", "all"}, []string{"all"}},
		{"no permission as a user", nobody, []string{"--manifests", public}, []string{"permission", "CAP_NET_ADMIN"}},
		{"no permission in a container", contained, []string{"--manifests", public}, []string{"permission", "CAP_NET_ADMIN"}},
		{"no permission to clean up", nobody, []string{"cleanup"}, []string{"permission", "CAP_NET_ADMIN"}},
		{"no permission to clean up as kube-proxy is told to", nobody, []string{"--cleanup"}, []string{"permission", "CAP_NET_ADMIN"}},
		{"a configuration that is not there", nil, []string{"--config", missing}, []string{"--config", missing}},
		{"a place where no configuration can be written", nil, []string{"--write-config-to", missing + "/file"}, []string{"--write-config-to", missing}},
		{"nothing to render", nil, []string{"render"}, []string{"nobody answers"}},
		{"nothing there to render", nil, []string{"render", "--manifests", missing}, []string{missing, "no such file"}},
	} {
		t.Run(c.says, func(t *testing.T) {
			out := runAs(t, l.Node.Host, c.rights, c.args...)
			if out.code != 1 || out.stdout != "" {
				t.Errorf("%v, want exit code 1 and no output", out)
			}
			out.stderr = configurationWarning.ReplaceAllString(out.stderr, "")
			if strings.Count(out.stderr, "\n") != 1 || !strings.HasPrefix(out.stderr, "kube-vmap: ") {
				t.Errorf("not one line that begins with kube-vmap:\n%s", out.stderr)
			}
			for _, want := range c.wants {
				if !strings.Contains(out.stderr, want) {
					t.Errorf("the line does not name %q:\n%s", want, out.stderr)
				}
			}
		})
	}
	if w.generation() != generation {
		t.Error("something was written")
	}
}

func TestVersionIsPrinted(t *testing.T) {
	l := newLab(t)
	if out := run(t, l.Node.Host, "version"); out != (outcome{stdout: "kube-vmap of-the-tests\n"}) {
		t.Errorf("%v", out)
	}
}

// TestRenderNamesWhatItLeavesOut also wants all the rest to be printed.
func TestRenderNamesWhatItLeavesOut(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	all := badFiles(f, "pod-1")
	out := run(t, l.Node.Host, "render", "--manifests", f.dir, "--hostname-override", "node-1")
	if out.code != 1 {
		t.Errorf("exit code %d, want 1", out.code)
	}
	for i, b := range bad {
		place := fmt.Sprintf("%s/%d.yaml: document %d: ", f.dir, i, badDocument)
		if !strings.Contains(out.stderr, place) {
			t.Errorf("%s: %q is not named in\n%s", b.says, place, out.stderr)
		}
	}
	for _, s := range all {
		if comment := fmt.Sprintf("comment %q : goto", "default/"+s.name+":tcp"); !strings.Contains(out.stdout, comment) {
			t.Errorf("%s is not printed", s.name)
		}
	}
}

// TestRenderedTextListsAsWhatTheProxyPrograms programs two hosts in two ways.
func TestRenderedTextListsAsWhatTheProxyPrograms(t *testing.T) {
	l := newLab(t)
	f := newFolder(t, l)
	f.write("cluster.yaml", text(t, cluster()...))
	f.put("services.yaml", tableServices()...)
	for _, m := range modes {
		t.Run(m.says, func(t *testing.T) {
			args := append([]string{"render", "--manifests", f.dir, "--hostname-override", "node-1"}, m.flags...)
			out := run(t, l.Node.Host, args...)
			if out.code != 0 || out.stderr != "" {
				t.Fatalf("render: exit code %d, %s", out.code, out.stderr)
			}
			file := filepath.Join(t.TempDir(), "rules.nft")
			if err := os.WriteFile(file, []byte(out.stdout), 0o644); err != nil {
				t.Fatal(err)
			}
			runNFT(t, l.Remote.Host, "-f", file)

			runNFT(t, l.Node.Host, "flush ruleset")
			d := start(t, l.Node, f.dir, append([]string{unprotected}, m.flags...)...)
			watch(t, l.Node.Host).settles(f.dir, m.flags...)
			d.stop()
			// To render is to look at no machine, and its addresses.
			for _, f := range model.Families {
				runNFT(t, l.Node.Host, "flush set "+nft.FamilyName(f)+" kube-vmap node-ips")
			}
			if programmed, rendered := listing(t, l.Node.Host), listing(t, l.Remote.Host); programmed != rendered {
				t.Errorf("programmed\n%s\nrendered\n%s", programmed, rendered)
			}
		})
	}
}
