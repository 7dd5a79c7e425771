package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// report prints what was built and how to load it.
func report(to io.Writer, out string, index v1.ImageIndex, images []platformImage, r release) error {
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest of the index: %w", err)
	}
	w := bufio.NewWriter(to)
	for _, tag := range r.tags() {
		fmt.Fprintln(w, tag)
	}
	fmt.Fprintf(w, "  %-12s  %s\n", "all", digest)
	for _, p := range images {
		line, err := describe(p)
		if err != nil {
			return err
		}
		fmt.Fprintln(w, line)
	}
	all, sample := archivePath(out, ""), archivePath(out, r.architectures[0])
	files := []string{all}
	for _, arch := range r.architectures {
		files = append(files, archivePath(out, arch), sbomPath(out, arch))
	}
	fmt.Fprintln(w)
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("get the size of a file: %w", err)
		}
		fmt.Fprintf(w, "%8.2f MB  %s\n", megabytes(info.Size()), path)
	}
	fmt.Fprintf(w, "\ncontainerd:  ctr --namespace k8s.io images import %s\n", all)
	fmt.Fprintf(w, "Docker:      docker load --input %s\n", sample)
	fmt.Fprintf(w, "a registry:  skopeo copy --all oci-archive:%s:%s docker://REGISTRY/kube-vmap:%[2]s\n", all, r.version)
	return w.Flush()
}

// describe returns a line about the image for one architecture.
func describe(p platformImage) (string, error) {
	digest, err := p.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of the image: %w", err)
	}
	m, err := p.Manifest()
	if err != nil {
		return "", fmt.Errorf("read the manifest: %w", err)
	}
	return fmt.Sprintf("  %-12s  %s  %.2f MB, unpacked %.2f MB",
		p.platform, digest, megabytes(m.Layers[0].Size), megabytes(int64(p.unpacked))), nil
}

// megabytes returns a size in millions of bytes.
func megabytes(n int64) float64 { return float64(n) / 1e6 }
