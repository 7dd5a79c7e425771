package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// checkKrew installs the plugin with the real krew, from the manifest and the archive of this
// platform, and runs it.
func checkKrew(t *testing.T, out string) {
	t.Helper()
	home := t.TempDir()
	krew := filepath.Join(home, "krew")
	if text, err := exec.Command("go", "build", "-o", krew, "sigs.k8s.io/krew/cmd/krew").CombinedOutput(); err != nil {
		t.Fatalf("build krew: %v\n%s", err, text)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "KREW_ROOT="+home, "KREW_NO_UPGRADE_CHECK=1", "HOME="+home)
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, text)
		}
		return string(text)
	}
	run(krew, "install", "--manifest="+filepath.Join(out, "vmap.yaml"),
		"--archive="+filepath.Join(out, "kubectl-vmap-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz"))
	if got := run(filepath.Join(home, "bin", "kubectl-vmap"), "version", "--client"); !strings.Contains(got, version) {
		t.Errorf("kubectl-vmap version --client prints %q, want %s in it", got, version)
	}
	script := filepath.Join(home, "store", "vmap", version, "kubectl_complete-vmap")
	if info, err := os.Stat(script); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("the program for completion: %v, %v", info, err)
	}

	manifest := read(t, out, "vmap.yaml")
	uri := regexp.MustCompile(`uri: https://localhost/kube-vmap/releases/` + regexp.QuoteMeta(version) + `/(\S+)\n    sha256: (\S+)`)
	found := uri.FindAllStringSubmatch(manifest, -1)
	if len(found) != len(strings.Fields(*system))*len(strings.Fields(*arch)) {
		t.Errorf("the manifest has %d platforms:\n%s", len(found), manifest)
	}
	sums := read(t, out, "SHA256SUMS")
	for _, f := range found {
		if line := f[2] + "  " + f[1] + "\n"; !strings.Contains(sums, line) {
			t.Errorf("SHA256SUMS does not have %q", line)
		}
	}
}
