// Command image packs layers with the static binary of a program and the license texts of its modules
// as container images, from scratch and without a container engine or a registry; .ci/image builds them and runs it.
//
//	ARCH.tar (a layer) --> image --+--> OUT/PROGRAM-ARCH.tar, for docker load
//	                               +--> OUT/layout, the OCI layout of all of them
//
// It is a module of its own, so kube-vmap's does not have its dependencies.
package main

import (
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	var r release
	flag.StringVar(&r.program, "program", "", "file name of the program")
	flag.StringVar(&r.description, "description", "", "what it is")
	flag.StringVar(&r.user, "user", "", "user and group that it runs as, as numbers")
	flag.StringVar(&r.name, "name", "", "name of the image, without tag")
	flag.StringVar(&r.version, "version", "", "version")
	flag.StringVar(&r.tag, "tag", "", "tag of the image")
	flag.StringVar(&r.revision, "revision", "", "commit")
	seconds := flag.Int64("created", 0, "seconds since 1970 that all times are set to")
	out := flag.String("out", ".", "folder to write to")
	flag.Parse()
	r.created = time.Unix(*seconds, 0).UTC()
	if err := r.write(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type release struct {
	program, description, user   string
	name, tag, version, revision string
	created                      time.Time
}

// write writes images with the given layers, whose names are their architectures.
func (r release) write(out string, layers []string) error {
	tags := make([]name.Tag, 2) // the second one is the default of the manifests
	for i, tag := range []string{r.tag, "latest"} {
		var err error
		if tags[i], err = name.NewTag(r.name+":"+tag, name.StrictValidation); err != nil {
			return fmt.Errorf("name and tag of the image: %w", err)
		}
	}
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, path := range layers {
		platform := &v1.Platform{OS: "linux", Architecture: strings.TrimSuffix(filepath.Base(path), ".tar")}
		image, err := r.newImage(path, platform)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		archive := filepath.Join(out, r.program+"-"+platform.Architecture+".tar")
		if err := tarball.MultiWriteToFile(archive, map[name.Tag]v1.Image{tags[0]: image, tags[1]: image}); err != nil {
			return fmt.Errorf("write the image for docker load: %w", err)
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
		if err := report(platform.String(), image); err != nil {
			return err
		}
	}
	all = mutate.Annotations(all, r.labels()).(v1.ImageIndex) // it returns the type of its argument
	top := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, tag := range tags { // containerd reads the full name, others the tag only
		top = mutate.AppendManifests(top, mutate.IndexAddendum{
			Add: all,
			Descriptor: v1.Descriptor{Annotations: map[string]string{
				"io.containerd.image.name":          tag.String(),
				"org.opencontainers.image.ref.name": tag.TagStr(),
			}},
		})
	}
	if _, err := layout.Write(filepath.Join(out, "layout"), top); err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	return report(tags[0].String(), all)
}

func (r release) newImage(path string, platform *v1.Platform) (v1.Image, error) {
	layer, err := tarball.LayerFromFile(path, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("compress the layer: %w", err)
	}
	created := v1.Time{Time: r.created}
	bare, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, Created: created,
		Config: v1.Config{
			Entrypoint: []string{"/" + r.program},
			WorkingDir: "/",
			User:       r.user,
			Labels:     r.labels(),
		},
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("configure the image: %w", err)
	}
	image, err := mutate.Append(bare, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: created, CreatedBy: "deploy/image", Comment: r.program + " " + r.version},
	})
	if err != nil {
		return nil, fmt.Errorf("add the layer: %w", err)
	}
	image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
	return untyped{mutate.Annotations(image, r.labels()).(v1.Image)}, nil // it returns the type of its argument
}

// An untyped image has no artifact type, which is right for images. Without this type,
// go-containerregistry lists the media type of the configuration.
type untyped struct{ v1.Image }

// ArtifactType returns an empty type.
func (untyped) ArtifactType() (string, error) { return "", nil }

// labels are in the image's configuration and its manifests.
// https://github.com/opencontainers/image-spec/blob/main/annotations.md
func (r release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       r.program,
		"org.opencontainers.image.description": r.description,
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
	}
}

func report(what string, image interface{ Digest() (v1.Hash, error) }) error {
	digest, err := image.Digest()
	if err == nil {
		_, err = fmt.Fprintln(os.Stdout, what, digest)
	}
	return err
}
