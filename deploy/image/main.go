// Command image builds the container image of kube-vmap for each architecture, from
// scratch, with the static binary as its only file. It needs neither a container engine
// nor a registry.
//
//	root/  --go build-->  kube-vmap  --+-- one layer, config --> image --+-- kube-vmap-ARCH.tar
//	                     (each arch)   |                                 |   (OCI layout, docker load)
//	                                   |                                 +-- kube-vmap.tar
//	                                   +-- its build info -------------+     (OCI layout, all of them)
//	                                                                   +---- kube-vmap-ARCH.cdx.json
//
// With -release it also writes what people download: the binaries, kubectl-vmap for each
// platform with a manifest for krew, the manual pages and the manifests with the version in
// them, and the checksums of all files.
//
// Builds are reproducible: the same commit and version of Go give the same bytes. Paths
// are trimmed, the environment is fixed, and all times are that of the commit (or
// SOURCE_DATE_EPOCH, https://reproducible-builds.org/specs).
//
// It is a module of its own, so that kube-vmap's does not have its dependencies.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// architectures are the architectures to build for without -arch, and systems those for
// kubectl-vmap without -os.
var (
	architectures = []string{"amd64", "arm64"}
	systems       = []string{"linux", "darwin", "windows"}
)

// defaultName is the image's name in the manifests in deploy/. No registry can have it.
const defaultName = "localhost/kube-vmap"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0, 2 for bad flags, or 1 with an error on stderr.
func run(args []string, stdout, stderr io.Writer) int {
	var root, out string
	r := release{architectures: architectures, systems: systems}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&root, "root", ".", "top of the source tree")
	flags.StringVar(&out, "out", "bin/image", "folder to write to")
	flags.Func("arch", "comma-separated architectures (default amd64,arm64)", func(list string) error {
		r.architectures = strings.Split(list, ",")
		return nil
	})
	flags.Func("os", "comma-separated systems to build kubectl-vmap for (default linux,darwin,windows)", func(list string) error {
		r.systems = strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
		return nil
	})
	flags.BoolVar(&r.assets, "release", false, "also write binaries, kubectl-vmap, manual pages, manifests and checksums")
	flags.StringVar(&r.url, "url", "https://localhost/kube-vmap/releases", "where versions will be published, for krew: a folder for each")
	flags.StringVar(&r.name, "name", defaultName, "name of the image, without tag")
	flags.StringVar(&r.version, "version", "", "version, and tag of the image (default: that of git describe)")
	flags.StringVar(&r.revision, "revision", "", "commit (default HEAD)")
	flags.Var(epoch{&r.created}, "created", "seconds since 1970 that all times are set to (default SOURCE_DATE_EPOCH, or the commit's)")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if err := makeAll(root, out, r, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "image:", err) // there is nowhere else to report it
		return 1
	}
	return 0
}

// makeAll builds and writes everything, and prints a report.
func makeAll(root, out string, r release, stdout io.Writer) error {
	r, err := r.complete(root)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "kube-vmap-image")
	if err != nil {
		return fmt.Errorf("create a build folder: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // the folder is temporary
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("create the output folder: %w", err)
	}
	var all []platformImage
	for _, arch := range r.architectures {
		p, err := makeOne(root, temp, out, arch, r)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		all = append(all, p)
	}
	index := newIndex(all, r)
	if err := writeLayout(archivePath(out, ""), tagged(index, nil, r), nil, r); err != nil {
		return err
	}
	if r.assets {
		if err := writePlugins(root, temp, out, r); err != nil {
			return fmt.Errorf("kubectl-vmap: %w", err)
		}
		if err := writeAssets(root, out, r); err != nil {
			return err
		}
	}
	return report(stdout, out, index, all, r)
}

// makeOne builds and writes the files for one architecture.
func makeOne(root, temp, out, arch string, r release) (platformImage, error) {
	path, err := build(root, temp, "cmd/kube-vmap", platform{"linux", arch}, r)
	if err != nil {
		return platformImage{}, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return platformImage{}, fmt.Errorf("read the binary: %w", err)
	}
	if r.assets {
		if err := os.WriteFile(filepath.Join(out, binaryName(arch)), binary, 0o755); err != nil {
			return platformImage{}, fmt.Errorf("write the binary: %w", err)
		}
	}
	if err := writeSBOM(sbomPath(out, arch), binary, arch, r); err != nil {
		return platformImage{}, err
	}
	p, err := newImage(binary, arch, r)
	if err != nil {
		return p, err
	}
	return p, writeImage(archivePath(out, arch), p, r)
}
