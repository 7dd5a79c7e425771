package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
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
	const title = `.TH "KUBE\-VMAP" "8" "" "kube\-vmap v1.2.3\-of\-a\-test" "kube\-vmap"`
	if got, _, _ := strings.Cut(manual[top+"man/kube-vmap.8"], "\n"); got != title {
		t.Errorf("the manual page begins with %q, want %q", got, title)
	}
	manifests := unpack(t, filepath.Join(out, "kube-vmap-manifests.tar.gz"))
	const image = "- name: localhost/kube-vmap\n  newName: localhost/kube-vmap\n  newTag: " + version + "\n"
	if site := manifests[top+"deploy/site/kustomization.yaml"]; !strings.Contains(site, image) {
		t.Errorf("the manifests' site is\n%s, want in it\n%s", site, image)
	}
	for _, file := range slices.Sorted(maps.Keys(manifests)) {
		if strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.yaml") {
			t.Errorf("the manifests hold %s", file)
		}
	}
	for _, file := range []string{"README.md", "base/daemonset.yaml", "overlays/instead-of-kube-proxy/nodes.yaml", "monitoring/dashboard.json", "readiness/policy.yaml"} {
		if manifests[top+"deploy/"+file] == "" {
			t.Errorf("the manifests lack %s", file)
		}
	}
	checkChart(t, unpack(t, filepath.Join(out, "kube-vmap-"+version[1:]+".tgz")))
}

// checkChart checks that the chart has the files that its templates read, and the version.
func checkChart(t *testing.T, chart map[string]string) {
	t.Helper()
	for _, want := range []string{"\nversion: " + version[1:] + "\n", "\nappVersion: \"" + version + "\"\n"} {
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
	for _, nodes := range []string{"beside", "instead-of"} {
		for _, file := range []string{"nodes.yaml", "kube-proxy.yaml"} {
			delete(used, "kube-vmap/files/overlays/%s/"+file)
			used["kube-vmap/files/overlays/"+nodes+"-kube-proxy/"+file] = true
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

// unpack returns the files of an archive.
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
