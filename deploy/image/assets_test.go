package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// checkAssets checks what a release has besides images and binaries.
func checkAssets(t *testing.T, out string) {
	t.Helper()
	check := exec.Command("sha256sum", "--check", "--quiet", "SHA256SUMS")
	check.Dir = out
	if text, err := check.CombinedOutput(); err != nil || strings.Count(read(t, out, "SHA256SUMS"), "\n") != len(filesIn(t, out))-1 {
		t.Errorf("checksums: %v\n%s", err, text)
	}
	const top = "kube-vmap-" + version + "/"
	manual := unpack(t, filepath.Join(out, "kube-vmap-man.tar.gz"))
	const title = `.TH "KUBE\-VMAP" "8" "" "kube\-vmap v1.2.3\-of\-a\-test+dirty" "kube\-vmap"`
	if got, _, _ := strings.Cut(manual[top+"man/kube-vmap.8"], "\n"); got != title {
		t.Errorf("the manual page begins with %q, want %q", got, title)
	}
	manifests := unpack(t, filepath.Join(out, "kube-vmap-manifests.tar.gz"))
	for folder, name := range map[string]string{"site": "localhost/kube-vmap", "scaler": "localhost/kube-vmap-scaler"} {
		image := "- name: " + name + "\n  newName: " + name + "\n  newTag: " + tag + "\n"
		if got := manifests[top+"deploy/"+folder+"/kustomization.yaml"]; !strings.Contains(got, image) {
			t.Errorf("the manifests' %s is\n%s, want in it\n%s", folder, got, image)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(manifests)) {
		if strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.yaml") {
			t.Errorf("the manifests hold %s", file)
		}
	}
	for _, file := range []string{"README.md", "configure", "base/daemonset.yaml", "overlays/instead-of-kube-proxy/nodes.yaml", "monitoring/dashboard.json", "readiness/policy.yaml", "scaler/deployment.yaml"} {
		if manifests[top+"deploy/"+file] == "" {
			t.Errorf("the manifests lack %s", file)
		}
	}
	checkChart(t, unpack(t, filepath.Join(out, "kube-vmap-"+version[1:]+".tgz")))
	for _, arch := range strings.Fields(*arch) {
		texts := unpack(t, filepath.Join(out, "kube-vmap-linux-"+arch+"-licenses.tar.gz"))
		texts["kube-vmap"] = read(t, out, "kube-vmap-linux-"+arch)
		checkLicenses(t, texts, "kube-vmap")
		for _, system := range strings.Fields(*system) {
			program := map[bool]string{false: "kubectl-vmap", true: "kubectl-vmap.exe"}[system == "windows"]
			checkLicenses(t, unpack(t, filepath.Join(out, "kubectl-vmap-"+system+"-"+arch+".tar.gz")), program)
		}
	}
}

// checkChart checks that the chart has the files that its templates read, and the version.
func checkChart(t *testing.T, chart map[string]string) {
	t.Helper()
	for _, want := range []string{"\nversion: " + version[1:] + "\n", "\nappVersion: \"" + tag + "\"\n", "\nhome: https://localhost/kube-vmap\n"} {
		if got := chart["kube-vmap/Chart.yaml"]; !strings.Contains(got, want) {
			t.Errorf("Chart.yaml is\n%s, want in it\n%s", got, want)
		}
	}
	used := map[string]bool{}
	for name, text := range chart {
		for _, match := range regexp.MustCompile(`"(files/[^"]+)"`).FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(name, "kube-vmap/templates/") {
				used["kube-vmap/"+match[1]] = true
			}
		}
	}
	for _, nodes := range []string{"beside-kube-proxy", "instead-of-kube-proxy"} {
		for _, file := range []string{"nodes.yaml", "kube-proxy.yaml"} {
			delete(used, "kube-vmap/files/overlays/%s/"+file)
			used["kube-vmap/files/overlays/"+nodes+"/"+file] = true
		}
	}
	for name := range chart {
		if strings.HasPrefix(name, "kube-vmap/files/") && !used[name] {
			t.Errorf("no template of the chart reads its %s", name)
		}
	}
	for _, file := range append(slices.Collect(maps.Keys(used)), "kube-vmap/values.yaml", "kube-vmap/values.schema.json", "kube-vmap/README.md") {
		if chart[file] == "" {
			t.Errorf("the chart lacks %s", file)
		}
	}
}

func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(strings.NewReader(read(t, path)))
	must(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		content, err := io.ReadAll(archive)
		must(t, err)
		if header.Typeflag == tar.TypeReg {
			files[header.Name] = string(content)
		}
	}
}

// checkKrew installs the plugin with the real krew, from the manifest and the archive of this
// platform, and runs it.
func checkKrew(t *testing.T, out string) {
	t.Helper()
	home := t.TempDir()
	krew := filepath.Join(home, "krew")
	// Build: after the one of a release in the same test; see TestImage.
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
