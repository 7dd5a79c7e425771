package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// openLayout unpacks an archive and checks all digests, sizes and media types in
// it.
func openLayout(t *testing.T, path string) v1.ImageIndex {
	t.Helper()
	folder := t.TempDir()
	archive := tar.NewReader(bytes.NewReader(read(t, path)))
	var names []string
	for {
		header, err := archive.Next()
		if err == io.EOF { //nolint:errorlint // the reader returns it as it is
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(folder, header.Name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("%s is not in the order of names: %v", path, names)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return index
}

// checkNames checks that both names have the same digest.
func checkNames(t *testing.T, index v1.ImageIndex, kind types.MediaType) {
	t.Helper()
	m := indexManifest(t, index).Manifests
	if len(m) != 2 || m[0].Digest != m[1].Digest {
		t.Fatalf("index.json lists %+v, want one digest under two names", m)
	}
	for i, tag := range []string{version, "latest"} {
		if m[i].MediaType != kind || m[i].ArtifactType != "" {
			t.Errorf("%s is a %s of artifact type %q, want %s", tag, m[i].MediaType, m[i].ArtifactType, kind)
		}
		if got := m[i].Annotations["org.opencontainers.image.ref.name"]; got != tag {
			t.Errorf("tag %q, want %q", got, tag)
		}
		if got := m[i].Annotations["io.containerd.image.name"]; got != "localhost/kube-vmap:"+tag {
			t.Errorf("name %q, want that of tag %q", got, tag)
		}
	}
}

// checkDockerImage reads the archive as docker load does.
func checkDockerImage(t *testing.T, path, full, arch string) {
	t.Helper()
	tag, err := name.NewTag(full)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatalf("%s: %v", full, err)
	}
	if err := validate.Image(image); err != nil {
		t.Errorf("%s: %v", full, err)
	}
	checkConfig(t, image, arch)
}

func checkConfig(t *testing.T, image v1.Image, arch string) {
	t.Helper()
	c, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.OS != "linux" || c.Architecture != arch {
		t.Errorf("the image is for %s/%s, want linux/%s", c.OS, c.Architecture, arch)
	}
	if !slices.Equal(c.Config.Entrypoint, []string{"/kube-vmap"}) || c.Config.Cmd != nil {
		t.Errorf("runs %q %q, want /kube-vmap alone", c.Config.Entrypoint, c.Config.Cmd)
	}
	if c.Config.User != "0:0" || len(c.Config.Env) != 0 {
		t.Errorf("user %q, environment %q; want 0:0 and none", c.Config.User, c.Config.Env)
	}
	for key, want := range map[string]string{
		"title": "kube-vmap", "version": version, "revision": revision, "created": "2026-11-18T11:06:40Z",
	} {
		if got := c.Config.Labels["org.opencontainers.image."+key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	if at := time.Unix(1795000000, 0); !c.Created.Equal(at) || len(c.History) != 1 || !c.History[0].Created.Equal(at) {
		t.Errorf("created %v, history %+v; want one step at %v", c.Created, c.History, at)
	}
}

// onlyFile returns the content of the only file of the only layer.
func onlyFile(t *testing.T, image v1.Image) []byte {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want 1", len(layers), err)
	}
	files, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(files)
	header, err := archive.Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "kube-vmap" || header.Typeflag != tar.TypeReg || header.Mode != 0o555 || header.Uid != 0 || header.Gid != 0 {
		t.Errorf("the file is %+v", header)
	}
	content, err := io.ReadAll(archive)
	if err != nil {
		t.Fatal(err)
	}
	if next, err := archive.Next(); err != io.EOF {
		t.Errorf("more than one file: %+v, %v", next, err)
	}
	return content
}

func checkBinary(t *testing.T, binary []byte, arch string) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if f.Machine != machines[arch] {
		t.Errorf("built for %s, want %s", f.Machine, machines[arch])
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
		t.Error("is linked dynamically")
	}
	if !bytes.Contains(binary, []byte(version)) {
		t.Error("does not know its version")
	}
}

func checkSBOM(t *testing.T, path, arch string) {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, path)), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if want := "pkg:golang/kube-vmap@" + version + "?goarch=" + arch + "&goos=linux"; bom.Metadata.Component.PackageURL != want {
		t.Errorf("describes %s, want %s", bom.Metadata.Component.PackageURL, want)
	}
	if uuid := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`); !uuid.MatchString(bom.SerialNumber) {
		t.Errorf("serial number %s is not a version 8 UUID", bom.SerialNumber)
	}
	modules := map[string]string{}
	for _, c := range *bom.Components {
		modules[c.Name] = c.Version
	}
	for _, module := range []string{"github.com/google/nftables", "k8s.io/api"} {
		required := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (\S+)`).FindSubmatch(read(t, "../../go.mod"))
		if required == nil || modules[module] != string(required[1]) {
			t.Errorf("lists %s %q, go.mod has %q", module, modules[module], required)
		}
	}
	if modules["stdlib"] == "" || modules["github.com/google/go-containerregistry"] != "" {
		t.Errorf("lists %v: want Go itself, and nothing of what packs the image", modules)
	}
}

func indexManifest(t *testing.T, index v1.ImageIndex) *v1.IndexManifest {
	t.Helper()
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return m
}
