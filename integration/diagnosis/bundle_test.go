package diagnosis

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab/labtest"
)

// unpack returns the files of an archive by name, without the folder.
func unpack(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	packed, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(h.Name, "kube-vmap-bundle/")] = string(text)
	}
}

// expected has a part of the content of each file of an archive.
var expected = map[string]string{
	"versions.txt":     "tables can be protected:",
	"config.yaml":      "kind: KubeProxyConfiguration",
	"status.json":      `"name":"sticky"`,
	"recent.log":       "level=WARN",
	"info.log":         "msg=starting",
	"problems.txt":     "Not checked: ",
	"rules-others.nft": "\tchain in { # hook input, policy drop\n\t\tmeta nfproto ipv4 ip saddr 192.0.2.7 tcp dport 443 drop # handle ",
	"metrics.txt":      "kubevmap_services 4",
	"rules-wanted.nft": "chain service-check {",
	"rules-kernel.nft": "chain service-check {",
	"drift.txt":        "",
	"sysctl.txt":       "net.netfilter.nf_conntrack_max = ",
}

func TestBundleOfRunningProxy(t *testing.T) {
	s := withServices(t)
	s.addFirewall()
	daemon.Start(t, s.Node, s.folder, "--proxy-mode=iptables").Ignore("configuration")
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if output := s.run("bundle", "-o", file); output.ExitCode != 0 || output.Stderr != "" || output.Stdout != file+"\n" {
		t.Fatalf("%+v", output)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	archive, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	got := unpack(t, archive)
	for name, want := range expected {
		if text, exists := got[name]; !exists || !strings.Contains(text, want) {
			t.Errorf("%s does not have %q:\n%.2000s", name, want, text)
		}
	}
	if len(got) != len(expected) {
		t.Errorf("there are %d files, want %d", len(got), len(expected))
	}
	if again := s.run("bundle", "-o", file); again.ExitCode != 1 || !strings.Contains(again.Stderr, "exists") {
		t.Errorf("an existing file: %+v", again)
	}
}

func TestBundleWithoutProxy(t *testing.T) {
	s := withServices(t)
	s.addFirewall()
	daemon.Start(t, s.Node, s.folder).Kill()
	output := s.run("bundle", "-o", "-")
	if output.ExitCode != 0 || !strings.Contains(output.Stderr, "skipped, see") {
		t.Errorf("exit code %d: %s", output.ExitCode, output.Stderr)
	}
	got := unpack(t, strings.NewReader(output.Stdout))
	for name, want := range expected {
		switch name {
		case "versions.txt", "sysctl.txt", "rules-kernel.nft", "rules-others.nft":
			if !strings.Contains(got[name], want) {
				t.Errorf("%s does not have %q", name, want)
			}
		default:
			if why := got[name+".error"]; !strings.Contains(why, "no kube-vmap answers") {
				t.Errorf("%s: %q", name, why)
			}
		}
	}
}

// A bundle has the path of a kubeconfig, and nothing of its content.
func TestBundleHasNoCredentials(t *testing.T) {
	s := withServices(t)
	const secret = "c2VjcmV0LXRva2Vu"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nusers: [{name: me, user: {token: " + secret + "}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := daemon.Launch{
		Node: s.Node, Folder: s.folder,
		Flags: []string{"--kubeconfig", file}, By: []string{"env", "KUBE_TOKEN=" + secret},
	}.Start(t)
	d.AwaitMessage("ready")
	for name, text := range unpack(t, strings.NewReader(s.run("bundle", "-o", "-").Stdout)) {
		if strings.Contains(text, secret) {
			t.Errorf("%s has a token", name)
		}
	}
}

// TestBundleOnBadFileSystems runs as in the pod of the DaemonSet, which names the remedy, and on a
// full file system, where nothing remains.
func TestBundleOnBadFileSystems(t *testing.T) {
	s := withServices(t)
	daemon.Start(t, s.Node, s.folder)
	in := func(mount string, args ...string) daemon.Output {
		script := `mount -t tmpfs -o ` + mount + ` none /mnt && cd /mnt && { "$@"; code=$?; ls /mnt >&2; exit $code; }`
		return daemon.RunBy(t, s.Node.Host, []string{"unshare", "--mount", "sh", "-c", script, "sh"}, append([]string{"bundle"}, args...)...)
	}
	for _, tc := range []struct {
		mount string
		args  []string
		says  string
	}{
		{"size=8k", []string{"-o", "/mnt/bundle.tar.gz"}, "no space left"},
		{"ro", nil, "exec POD -- /kube-vmap bundle -o - > bundle.tar.gz"},
		{"ro", []string{"-o", "/mnt/bundle.tar.gz"}, "read-only file system"},
	} {
		out := in(tc.mount, tc.args...)
		if out.ExitCode != 1 || out.Stdout != "" || strings.Count(out.Stderr, "\n") != 1 || !strings.Contains(out.Stderr, tc.says) {
			t.Errorf("%+v: %v", tc, out)
		}
	}
	output := in("ro", "-o", "-")
	if got := unpack(t, strings.NewReader(output.Stdout)); output.ExitCode != 0 || len(got) != len(expected) {
		t.Errorf("-o -: exit code %d, %d files: %s", output.ExitCode, len(got), output.Stderr)
	}
}

// addFirewall adds a table of another program.
func (s *scene) addFirewall() {
	s.t.Helper()
	const rules = "table inet firewall { chain in { type filter hook input priority 0; policy drop; ip saddr 192.0.2.7 tcp dport 443 drop; accept; }; }"
	labtest.Run(s.t, s.Node.Host, rules, "nft", "-f", "-")
}
