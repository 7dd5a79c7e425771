package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// binaryPath is the path of the binary in the image.
const binaryPath = "/kube-vmap"

// A platformImage is the image for one architecture.
type platformImage struct {
	v1.Image
	platform v1.Platform
	unpacked int // size of the binary in bytes
}

// ArtifactType returns an empty type, which is right for images. Without this method,
// go-containerregistry uses the media type of the configuration.
func (platformImage) ArtifactType() (string, error) { return "", nil }

// newImage returns an image with a binary.
func newImage(binary []byte, arch string, r release) (platformImage, error) {
	p := platformImage{platform: v1.Platform{OS: "linux", Architecture: arch}, unpacked: len(binary)}
	layer, err := newLayer(binary, r)
	if err != nil {
		return p, err
	}
	created := v1.Time{Time: r.created}
	bare, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS:           p.platform.OS,
		Architecture: p.platform.Architecture,
		Created:      created,
		Config: v1.Config{
			Entrypoint: []string{binaryPath},
			WorkingDir: "/",
			User:       "0:0", // see "Privileges" in deploy/README.md
			Labels:     r.labels(),
		},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return p, fmt.Errorf("configure the image: %w", err)
	}
	image, err := mutate.Append(bare, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Created: created, CreatedBy: "deploy/image", Comment: "kube-vmap " + r.version},
	})
	if err != nil {
		return p, fmt.Errorf("add the layer: %w", err)
	}
	image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
	p.Image = mutate.Annotations(image, r.labels()).(v1.Image) // it returns the type of its argument
	return p, nil
}

// newLayer returns a layer with one file.
func newLayer(binary []byte, r release) (v1.Layer, error) {
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: binaryPath[1:], Mode: 0o555, Size: int64(len(binary)), ModTime: r.created}
	if err := w.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("write the layer: %w", err)
	}
	if _, err := w.Write(binary); err != nil {
		return nil, fmt.Errorf("write the layer: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write the layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open,
		tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compress the layer: %w", err)
	}
	return layer, nil
}

// newIndex returns an index of the images for all architectures.
func newIndex(images []platformImage, r release) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: p, Descriptor: v1.Descriptor{Platform: &p.platform},
		})
	}
	return mutate.Annotations(index, r.labels()).(v1.ImageIndex) // it returns the type of its argument
}
