package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// archivePath returns the path of the image for an architecture, or for all of them if
// arch is empty.
func archivePath(out, arch string) string {
	if arch != "" {
		arch = "-" + arch
	}
	return filepath.Join(out, "kube-vmap"+arch+".tar")
}

// writeImage writes the image for one architecture for both containerd and Docker.
func writeImage(path string, p platformImage, r release) error {
	docker, err := dockerManifest(p, r)
	if err != nil {
		return fmt.Errorf("create the manifest for docker load: %w", err)
	}
	return writeLayout(path, tagged(p, &p.platform, r), docker, r)
}

// tagged returns the index of a layout with one image or index under all its names.
// containerd reads the full name, others the tag only.
func tagged(image mutate.Appendable, platform *v1.Platform, r release) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, tag := range r.tags() {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image,
			Descriptor: v1.Descriptor{Platform: platform, Annotations: map[string]string{
				"io.containerd.image.name":          tag,
				"org.opencontainers.image.ref.name": tag[len(r.name)+1:],
			}},
		})
	}
	return index
}

// dockerManifest returns the manifest.json for docker load, with paths in the layout.
func dockerManifest(p platformImage, r release) ([]byte, error) {
	m, err := p.Manifest()
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	d := tarball.Descriptor{Config: blob(m.Config.Digest), RepoTags: r.tags()}
	for _, layer := range m.Layers {
		d.Layers = append(d.Layers, blob(layer.Digest))
	}
	return json.Marshal(tarball.Manifest{d})
}

// writeLayout writes an OCI image layout as one file, with Docker's manifest unless that
// is nil.
func writeLayout(path string, index v1.ImageIndex, docker []byte, r release) error {
	folder, err := os.MkdirTemp("", "kube-vmap-layout")
	if err != nil {
		return fmt.Errorf("create a folder for the layout: %w", err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the folder is temporary
	if _, err := layout.Write(folder, index); err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	if docker != nil {
		if err := os.WriteFile(filepath.Join(folder, "manifest.json"), docker, 0o644); err != nil {
			return fmt.Errorf("write the manifest for docker load: %w", err)
		}
	}
	var archive bytes.Buffer
	if err := pack(&archive, os.DirFS(folder), r); err != nil {
		return fmt.Errorf("pack the layout: %w", err)
	}
	if err := os.WriteFile(path, archive.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

// pack writes a folder's files in the order of their names, with fixed owners and times.
func pack(w io.Writer, folder fs.FS, r release) error {
	archive := tar.NewWriter(w)
	err := fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(folder, path)
		if err != nil {
			return err
		}
		return addFile(archive, path, 0o644, content, r)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// addFile adds a file with fixed owner and time.
func addFile(archive *tar.Writer, name string, mode int64, content []byte, r release) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: r.created}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}
