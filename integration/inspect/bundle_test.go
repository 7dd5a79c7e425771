package inspect

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
)

// unpack reads an archive, by names without its folder.
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

// expected is a part of what each file of an archive says.
var expected = map[string]string{
	"versions.txt":     "tables can be protected:",
	"config.yaml":      "kind: KubeProxyConfiguration",
	"status.json":      `"name":"sticky"`,
	"recent.log":       "level=WARN",
	"metrics.txt":      "kubevmap_services 4",
	"rules-wanted.nft": "chain service-check {",
	"rules-kernel.nft": "chain service-check {",
	"drift.txt":        "",
	"sysctl.txt":       "net.netfilter.nf_conntrack_max = ",
}

func TestABundleHasWhatTheProxyAndTheKernelKnow(t *testing.T) {
	s := newScene(t)
	daemon.Start(t, s.lab.Node, s.folder, "--proxy-mode=iptables").Ignore("configuration")
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if said := s.run("bundle", "-o", file); said.ExitCode != 0 || said.Stderr != "" || said.Stdout != file+"\n" {
		t.Fatalf("%+v", said)
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
			t.Errorf("%s does not say %q:\n%.2000s", name, want, text)
		}
	}
	if len(got) != len(expected) {
		t.Errorf("there are %d files, want %d", len(got), len(expected))
	}
	if again := s.run("bundle", "-o", file); again.ExitCode != 1 || !strings.Contains(again.Stderr, "exists") {
		t.Errorf("a file that is there: %+v", again)
	}
}

func TestABundleWithoutAProxyHasWhatTheKernelKnows(t *testing.T) {
	s := newScene(t)
	daemon.Start(t, s.lab.Node, s.folder).Kill()
	said := s.run("bundle", "-o", "-")
	if said.ExitCode != 0 || !strings.Contains(said.Stderr, "skipped, see") {
		t.Errorf("exit code %d: %s", said.ExitCode, said.Stderr)
	}
	got := unpack(t, strings.NewReader(said.Stdout))
	for name, want := range expected {
		switch name {
		case "versions.txt", "sysctl.txt", "rules-kernel.nft":
			if !strings.Contains(got[name], want) {
				t.Errorf("%s does not say %q", name, want)
			}
		default:
			if why := got[name+".error"]; !strings.Contains(why, "no kube-vmap answers") {
				t.Errorf("%s: %q", name, why)
			}
		}
	}
}

// A kubeconfig's path is told, and nothing of what is in it.
func TestABundleHasNoCredentials(t *testing.T) {
	s := newScene(t)
	const secret = "c2VjcmV0LXRva2Vu"
	d := daemon.Launch{
		Node: s.lab.Node, Folder: s.folder,
		Flags: []string{"--kubeconfig", s.kubeconfig(secret)}, By: []string{"env", "KUBE_TOKEN=" + secret},
	}.Start(t)
	d.AwaitMessage("ready")
	for name, text := range unpack(t, strings.NewReader(s.run("bundle", "-o", "-").Stdout)) {
		if strings.Contains(text, secret) {
			t.Errorf("%s has a token", name)
		}
	}
}

// kubeconfig writes one with a token.
func (s *scene) kubeconfig(token string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nusers: [{name: me, user: {token: " + token + "}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// Half an archive helps nobody, and would be in the way of the next try.
func TestABundleThatFindsNoRoomLeavesNothingBehind(t *testing.T) {
	s := newScene(t)
	daemon.Start(t, s.lab.Node, s.folder)
	const small = `mount -t tmpfs -o size=8k none /mnt && { "$@"; code=$?; echo "there is: $(ls /mnt)" >&2; exit $code; }`
	said := daemon.RunBy(t, s.lab.Node.Host, []string{"unshare", "--mount", "sh", "-c", small, "sh"}, "bundle", "-o", "/mnt/bundle.tar.gz")
	if said.ExitCode != 1 || !strings.Contains(said.Stderr, "no space left") || !strings.HasSuffix(said.Stderr, "there is: \n") {
		t.Errorf("exit code %d: %s", said.ExitCode, said.Stderr)
	}
}

// TestABundleOnAReadOnlyFileSystemSaysWhatToDo is what happens in the DaemonSet's pod.
func TestABundleOnAReadOnlyFileSystemSaysWhatToDo(t *testing.T) {
	s := newScene(t)
	daemon.Start(t, s.lab.Node, s.folder)
	const readOnly = `mount -t tmpfs -o ro none /mnt && cd /mnt && exec "$@"`
	by := []string{"unshare", "--mount", "sh", "-c", readOnly, "sh"}
	for _, args := range [][]string{{"bundle"}, {"bundle", "-o", "/mnt/bundle.tar.gz"}} {
		said := daemon.RunBy(t, s.lab.Node.Host, by, args...)
		if said.ExitCode != 1 || said.Stdout != "" || strings.Count(said.Stderr, "\n") != 1 || !strings.Contains(said.Stderr, "read-only file system") ||
			!strings.Contains(said.Stderr, "exec POD -- /kube-vmap bundle -o - > bundle.tar.gz") {
			t.Errorf("%v: %+v", args, said)
		}
	}
	said := daemon.RunBy(t, s.lab.Node.Host, by, "bundle", "-o", "-")
	if got := unpack(t, strings.NewReader(said.Stdout)); said.ExitCode != 0 || len(got) != len(expected) {
		t.Errorf("-o -: exit code %d, %d files: %s", said.ExitCode, len(got), said.Stderr)
	}
}
