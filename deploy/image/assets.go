package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checksumsName is the file with the checksums of all others, for `sha256sum --check`.
const checksumsName = "SHA256SUMS"

// binaryName is the file with the binary for an architecture.
func binaryName(arch string) string { return "kube-vmap-linux-" + arch }

// writeAssets writes what a release has besides binaries and images: manual pages,
// manifests and the Helm chart, all with the version in them, and the checksums of all
// files in out.
func writeAssets(root, out string, r release) error {
	deploy := os.DirFS(filepath.Join(root, "deploy"))
	top := "kube-vmap-" + r.version
	for _, a := range []struct {
		name  string
		place func(file string) string // the path in the archive; empty if it is not in it
		edit  func(file string, content []byte) ([]byte, error)
	}{
		{"kube-vmap-man.tar.gz", in(top, isManual), r.versionOfManual},
		{"kube-vmap-manifests.tar.gz", in(top+"/deploy", isManifest), r.versionOfManifest},
		{"kube-vmap-" + r.chartVersion() + ".tgz", placeInChart, r.versionOfChart}, // as helm package names it
	} {
		archive, err := compressed(deploy, r, a.place, a.edit)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if err := os.WriteFile(filepath.Join(out, a.name), archive, 0o644); err != nil {
			return fmt.Errorf("write an archive: %w", err)
		}
	}
	return writeChecksums(out)
}

// in places the files that are wanted in a folder.
func in(folder string, wants func(file string) bool) func(file string) string {
	return func(file string) string {
		if !wants(file) {
			return ""
		}
		return path.Join(folder, file)
	}
}

// isManual reports whether a file of deploy is a manual page.
func isManual(file string) bool { return path.Dir(file) == "man" }

// isManifest reports whether users need a file of deploy to install kube-vmap.
func isManifest(file string) bool {
	folder, _, nested := strings.Cut(file, "/")
	switch {
	case !nested:
		return file == "README.md"
	case folder == "monitoring":
		return path.Ext(file) == ".yaml" && !strings.HasSuffix(file, "_test.yaml") || path.Ext(file) == ".json"
	}
	return slices.Contains([]string{"base", "kubectl", "overlays", "preflight", "readiness", "shadow", "site"}, folder)
}

// placeInChart returns a file's path in the Helm chart's archive. The links of helm/files
// become what they link to, as with `helm package`.
func placeInChart(file string) string {
	if inside, ok := strings.CutPrefix(file, "helm/"); ok {
		if ext := path.Ext(inside); strings.HasPrefix(inside, "testdata/") || ext == ".go" || ext == ".mod" || ext == ".sum" {
			return ""
		}
		return path.Join("kube-vmap", inside)
	}
	switch path.Base(file) {
	case "README.md", "kustomization.yaml", "rules.yaml":
		return ""
	}
	if folder := strings.Split(file, "/")[0]; slices.Contains([]string{"kubectl", "preflight", "readiness", "shadow"}, folder) {
		return ""
	}
	return in("kube-vmap/files", isManifest)(file)
}

// semantic is a version as Helm requires it, after a v (https://semver.org).
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// semanticVersion returns the version as Helm and krew require it. That of a commit without
// tag is before all others.
func (r release) semanticVersion() string {
	if semantic.MatchString(r.version) {
		return r.version
	}
	return "v0.0.0-" + r.version
}

// chartVersion returns the version of the chart.
func (r release) chartVersion() string { return strings.TrimPrefix(r.semanticVersion(), "v") }

// versionOfChart sets the versions of the chart, and the image's name.
func (r release) versionOfChart(file string, content []byte) ([]byte, error) {
	switch file {
	case "helm/Chart.yaml":
		return replaceOnce(file, content, `(?m)^version: .*\nappVersion: .*$`, "version: "+r.chartVersion()+"\nappVersion: "+strconv.Quote(r.version))
	case "helm/values.yaml":
		return replaceOnce(file, content, `(?m)^(  repository: ).*$`, "${1}"+r.name)
	}
	return content, nil
}

// versionOfManual puts the version into the footer of a manual page (man-pages(7)).
func (r release) versionOfManual(file string, content []byte) ([]byte, error) {
	return replaceOnce(file, content, `^(\.TH "[^"]*" "8" "" ")kube\\-vmap"`,
		`${1}kube\-vmap `+strings.ReplaceAll(r.version, "-", `\-`)+`"`)
}

// versionOfManifest sets the image's version in a manifest.
func (r release) versionOfManifest(file string, content []byte) ([]byte, error) {
	if file != "site/kustomization.yaml" {
		return content, nil
	}
	return replaceOnce(file, content, `(?m)^(- name: `+regexp.QuoteMeta(defaultName)+`\n  newName: ).*\n  newTag: .*$`,
		"${1}"+r.name+"\n  newTag: "+r.version)
}

func replaceOnce(file string, content []byte, pattern, with string) ([]byte, error) {
	re := regexp.MustCompile(pattern)
	if n := len(re.FindAllIndex(content, -1)); n != 1 {
		return nil, fmt.Errorf("%s: %d places for the version, want one", file, n)
	}
	return re.ReplaceAll(content, []byte(with)), nil
}

// compressed returns an archive of some files, in the order of their names and without
// what depends on the machine.
func compressed(
	from fs.FS, r release, place func(file string) string, edit func(file string, content []byte) ([]byte, error),
) ([]byte, error) {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	archive := tar.NewWriter(zip)
	err := fs.WalkDir(from, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || place(file) == "" {
			return err
		}
		content, err := fs.ReadFile(from, file)
		if err != nil {
			return err
		}
		if content, err = edit(file, content); err != nil {
			return err
		}
		return addFile(archive, place(file), 0o644, content, r)
	})
	err = errors.Join(err, archive.Close(), zip.Close())
	return b.Bytes(), err
}

// writeChecksums writes the checksums of all files in a folder.
func writeChecksums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("list the release: %w", err)
	}
	var sums strings.Builder
	for _, e := range entries {
		if e.Name() == checksumsName {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return fmt.Errorf("read what was written: %w", err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	if err := os.WriteFile(filepath.Join(folder, checksumsName), []byte(sums.String()), 0o644); err != nil {
		return fmt.Errorf("write the checksums: %w", err)
	}
	return nil
}
