package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// pluginArchive returns the name of the archive for a platform.
func pluginArchive(p platform) string { return "kubectl-vmap-" + p.os + "-" + p.arch + ".tar.gz" }

// krewManifest is the name of the manifest for krew.
const krewManifest = "vmap.yaml"

// writePlugins writes kubectl-vmap for each platform, and the manifest by which krew
// installs it (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
func writePlugins(root, temp, out string, r release) error {
	m := krew{Version: r.semanticVersion()}
	for _, system := range r.systems {
		for _, arch := range r.architectures {
			p := platform{system, arch}
			archive, err := pluginFor(root, temp, p, r)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
			}
			if err := os.WriteFile(filepath.Join(out, pluginArchive(p)), archive, 0o644); err != nil {
				return fmt.Errorf("write an archive: %w", err)
			}
			m.Platforms = append(m.Platforms, krewPlatform{
				OS: p.os, Arch: p.arch, Bin: pluginBinary(p), SHA256: fmt.Sprintf("%x", sha256.Sum256(archive)),
				URI: strings.TrimSuffix(r.url, "/") + "/" + r.version + "/" + pluginArchive(p),
			})
		}
	}
	if len(m.Platforms) == 0 {
		return nil
	}
	text, err := m.text()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, krewManifest), text, 0o644); err != nil {
		return fmt.Errorf("write the manifest for krew: %w", err)
	}
	return nil
}

func pluginBinary(p platform) string {
	if p.os == "windows" {
		return "kubectl-vmap.exe"
	}
	return "kubectl-vmap"
}

// pluginFor returns the archive for one platform: the program and, where there are shells
// that can run it, the one that kubectl runs for completion.
func pluginFor(root, temp string, p platform, r release) ([]byte, error) {
	path, err := build(root, temp, "cmd/kubectl-vmap", p, r)
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	archive := tar.NewWriter(zip)
	err = addFile(archive, pluginBinary(p), 0o755, binary, r)
	if p.os != "windows" {
		script, failed := os.ReadFile(filepath.Join(root, "cmd", "kubectl-vmap", "kubectl_complete-vmap"))
		err = errors.Join(err, failed, addFile(archive, "kubectl_complete-vmap", 0o755, script, r))
	}
	err = errors.Join(err, archive.Close(), zip.Close())
	return b.Bytes(), err
}

// krew is what the manifest for krew has.
type krew struct {
	Version   string
	Platforms []krewPlatform
}

type krewPlatform struct{ OS, Arch, Bin, SHA256, URI string }

//go:embed krew.yaml.tmpl
var krewTemplate string

func (m krew) text() ([]byte, error) {
	var b bytes.Buffer
	t, err := template.New(krewManifest).Parse(krewTemplate)
	if err == nil {
		err = t.Execute(&b, m)
	}
	if err != nil {
		return nil, fmt.Errorf("make the manifest for krew: %w", err)
	}
	return b.Bytes(), nil
}
