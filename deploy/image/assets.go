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
	"strings"
)

// checksumsName is the file with the checksums of all others, for `sha256sum --check`.
const checksumsName = "SHA256SUMS"

// binaryName is the file with the binary for an architecture.
func binaryName(arch string) string { return "kube-vmap-linux-" + arch }

// writeAssets writes what a release has besides binaries and images: manual pages and
// manifests, both with the version in them, and the checksums of all files in out.
func writeAssets(root, out string, r release) error {
	deploy := os.DirFS(filepath.Join(root, "deploy"))
	top := "kube-vmap-" + r.version
	for _, a := range []struct {
		name, folder string
		wants        func(file string) bool
		edit         func(file string, content []byte) ([]byte, error)
	}{
		{"kube-vmap-man.tar.gz", top, func(file string) bool { return path.Dir(file) == "man" }, r.versionOfManual},
		{"kube-vmap-manifests.tar.gz", top + "/deploy", isManifest, r.versionOfManifest},
	} {
		archive, err := compressed(deploy, a.folder, r, a.wants, a.edit)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if err := os.WriteFile(filepath.Join(out, a.name), archive, 0o644); err != nil {
			return fmt.Errorf("write an archive: %w", err)
		}
	}
	return writeChecksums(out)
}

// isManifest reports whether users need a file of deploy to install kube-vmap.
func isManifest(file string) bool {
	folder, _, nested := strings.Cut(file, "/")
	switch {
	case !nested:
		return file == "README.md"
	case folder == "monitoring":
		return path.Ext(file) == ".yaml" && !strings.HasSuffix(file, "_test.yaml") || path.Ext(file) == ".json"
	}
	return folder == "base" || folder == "overlays" || folder == "site"
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
	from fs.FS, folder string, r release, wants func(file string) bool, edit func(file string, content []byte) ([]byte, error),
) ([]byte, error) {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	archive := tar.NewWriter(zip)
	err := fs.WalkDir(from, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !wants(file) {
			return err
		}
		content, err := fs.ReadFile(from, file)
		if err != nil {
			return err
		}
		if content, err = edit(file, content); err != nil {
			return err
		}
		return addFile(archive, folder+"/"+file, content, r)
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
