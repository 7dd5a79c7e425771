package main

import (
	"bytes"
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
	run(krew, "install", "--manifest="+filepath.Join(out, krewManifest),
		"--archive="+filepath.Join(out, pluginArchive(platform{runtime.GOOS, runtime.GOARCH})))
	if got := run(filepath.Join(home, "bin", "kubectl-vmap"), "version", "--client"); !strings.Contains(got, version) {
		t.Errorf("kubectl-vmap version --client prints %q, want %s in it", got, version)
	}
	script := filepath.Join(home, "store", "vmap", version, "kubectl_complete-vmap")
	if info, err := os.Stat(script); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("the program for completion: %v, %v", info, err)
	}

	manifest := read(t, filepath.Join(out, krewManifest))
	uri := regexp.MustCompile(`uri: https://localhost/kube-vmap/releases/` + regexp.QuoteMeta(version) + `/(\S+)\n    sha256: (\S+)`)
	found := uri.FindAllSubmatch(manifest, -1)
	if len(found) != len(testedSystems())*len(tested()) {
		t.Errorf("the manifest has %d platforms:\n%s", len(found), manifest)
	}
	sums := read(t, filepath.Join(out, checksumsName))
	for _, f := range found {
		if line := string(f[2]) + "  " + string(f[1]) + "\n"; !bytes.Contains(sums, []byte(line)) {
			t.Errorf("%s does not have %q", checksumsName, line)
		}
	}
}
