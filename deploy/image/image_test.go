package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const (
	version  = "v1.2.3-of-a-test+dirty"
	tag      = "v1.2.3-of-a-test-dirty" // which cannot have a plus
	revision = "0123456789abcdef0123456789abcdef01234567"
	created  = 1795000000 // 2026-11-18T11:06:40Z
)

// arch and system limit what TestImage builds, because all of them take some minutes.
var (
	arch   = flag.String("arch", "amd64 arm64", "build for these architectures")
	system = flag.String("os", "linux darwin windows", "build kubectl-vmap for these systems")
)

// TestImage makes a release, with settings of Go stored that would make other files. Whether two
// trees give the same bytes is checked by .ci/release.
func TestImage(t *testing.T) {
	out, stored := t.TempDir(), filepath.Join(t.TempDir(), "env")
	const text = "GOOS=plan9\nGOARCH=386\nGOAMD64=v3\nGOARM64=v9.0\nCGO_ENABLED=1\n" +
		"GOFLAGS=-race\nGOEXPERIMENT=none\nGOFIPS140=latest\nGOWORK=/nowhere\n"
	must(t, os.WriteFile(stored, []byte(text), 0o600))
	build := exec.Command("../../.ci/image", version, out)
	build.Env = append(os.Environ(), "RELEASE=1", "ARCH="+*arch, "SYSTEMS="+*system, "REVISION="+revision,
		"SOURCE_DATE_EPOCH=1795000000", "GOENV="+stored)
	if text, err := build.CombinedOutput(); err != nil || !bytes.Contains(text, []byte("images import "+out)) {
		t.Fatalf("%v:\n%s", err, text)
	}
	want := []string{
		"SHA256SUMS", "kube-vmap-" + version[1:] + ".tgz", "kube-vmap-man.tar.gz", "kube-vmap-manifests.tar.gz",
		"kube-vmap.tar", "vmap.yaml",
	}
	for _, arch := range strings.Fields(*arch) {
		for _, system := range strings.Fields(*system) {
			want = append(want, "kubectl-vmap-"+system+"-"+arch+".tar.gz")
		}
		want = append(want, "kube-vmap-"+arch+".cdx.json", "kube-vmap-"+arch+".tar", "kube-vmap-linux-"+arch,
			"kube-vmap-linux-"+arch+"-licenses.tar.gz")
	}
	if files := filesIn(t, out); !slices.Equal(files, slices.Sorted(slices.Values(want))) {
		t.Fatalf("files %v, want %v", files, want)
	}
	t.Run("Assets", func(t *testing.T) { checkAssets(t, out) })
	t.Run("KrewInstallsThePlugin", func(t *testing.T) { checkKrew(t, out) })
	t.Run("ArchiveOfAllHasOneImageForEachArchitecture", func(t *testing.T) { checkLayout(t, filepath.Join(out, "kube-vmap.tar")) })
	for _, arch := range strings.Fields(*arch) {
		t.Run(arch, func(t *testing.T) {
			binary := read(t, out, "kube-vmap-linux-"+arch)
			checkBinary(t, binary, arch)
			for _, tag := range []string{tag, "latest"} { // as docker load reads it
				full, err := name.NewTag("localhost/kube-vmap:" + tag)
				must(t, err)
				image, err := tarball.ImageFromPath(filepath.Join(out, "kube-vmap-"+arch+".tar"), &full)
				if err != nil {
					t.Fatalf("%s: %v", full, err)
				}
				checkImage(t, image, arch, binary)
			}
			checkSBOM(t, read(t, out, "kube-vmap-"+arch+".cdx.json"), arch)
		})
	}
}

func TestInvalidImageNamesAreRefused(t *testing.T) {
	for _, tag := range []string{"a tag", "v1+dirty", strings.Repeat("v", 129)} {
		r := release{name: "localhost/kube-vmap", tag: tag, version: "v1"}
		if err := r.write(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "tag of the image") {
			t.Errorf("tag %q: %v", tag, err)
		}
	}
}

// checkLayout unpacks an OCI layout, and checks all digests, sizes and media types in it.
func checkLayout(t *testing.T, path string) {
	folder := t.TempDir()
	if text, err := exec.Command("tar", "-xf", path, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	top, err := layout.ImageIndexFromPath(folder)
	must(t, err)
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	names := indexManifest(t, top)
	if len(names) != 2 || names[0].Digest != names[1].Digest {
		t.Fatalf("index.json lists %+v, want one digest under two names", names)
	}
	for i, tag := range []string{tag, "latest"} {
		a := names[i].Annotations
		if a["org.opencontainers.image.ref.name"] != tag || a["io.containerd.image.name"] != "localhost/kube-vmap:"+tag {
			t.Errorf("names %v, want that of tag %s", a, tag)
		}
	}
	all, err := top.ImageIndex(names[0].Digest)
	must(t, err)
	var got []string
	for _, d := range indexManifest(t, all) {
		got = append(got, d.Platform.Architecture)
		image, err := all.Image(d.Digest)
		must(t, err)
		if d.ArtifactType != "" {
			t.Errorf("artifact type %q", d.ArtifactType)
		}
		checkImage(t, image, d.Platform.Architecture, read(t, filepath.Dir(path), "kube-vmap-linux-"+d.Platform.Architecture))
	}
	if want := strings.Fields(*arch); !slices.Equal(got, want) {
		t.Errorf("holds %v, want %v", got, want)
	}
}

// checkImage checks the configuration and the files, which are the binary and license texts.
func checkImage(t *testing.T, image v1.Image, arch, binary string) {
	t.Helper()
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	c, err := image.ConfigFile()
	must(t, err)
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
	if at := time.Unix(created, 0); !c.Created.Equal(at) || len(c.History) != 1 || !c.History[0].Created.Equal(at) {
		t.Errorf("created %v, history %+v; want one step at %v", c.Created, c.History, at)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want 1", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	must(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		executable := header.Name == "kube-vmap" || header.Typeflag == tar.TypeDir
		if executable != (header.Mode == 0o555) || !executable && header.Mode != 0o444 ||
			header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(time.Unix(created, 0)) {
			t.Errorf("a file is %+v", header)
		}
		text, err := io.ReadAll(archive)
		must(t, err)
		if header.Typeflag == tar.TypeReg {
			files[header.Name] = string(text)
		}
	}
	if files["kube-vmap"] != binary {
		t.Error("kube-vmap is not the binary")
	}
	checkLicenses(t, files, "kube-vmap")
}

// checkLicenses checks that there is a license text for each module that is linked into a program, and
// for Go's library, and nothing else.
func checkLicenses(t *testing.T, files map[string]string, program string) {
	t.Helper()
	info, err := buildinfo.Read(strings.NewReader(files[program]))
	must(t, err)
	modules := []string{"std"}
	for _, module := range info.Deps {
		if module.Replace == nil { // in the plugin, kube-vmap itself
			modules = append(modules, module.Path)
		}
	}
	for _, module := range modules {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(name string) bool {
			return strings.HasPrefix(name, "licenses/"+module+"/") && strings.Contains(path.Base(name), "LICENSE")
		}) {
			t.Errorf("%s: no license text of %s", program, module)
		}
	}
	for name := range files {
		if module, found := strings.CutPrefix(name, "licenses/"); found && !slices.ContainsFunc(modules, func(m string) bool { return strings.HasPrefix(module, m+"/") }) {
			t.Errorf("%s: %s is of no module", program, name)
		}
	}
}

func checkBinary(t *testing.T, binary, arch string) {
	t.Helper()
	f, err := elf.NewFile(strings.NewReader(binary))
	must(t, err)
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; f.Machine != want {
		t.Errorf("built for %s, want %s", f.Machine, want)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
		t.Error("is linked dynamically")
	}
	if !strings.Contains(binary, version) {
		t.Error("does not know its version")
	}
}

// checkSBOM checks that an SBOM lists what was linked, and nothing of what packs the image.
func checkSBOM(t *testing.T, bom, arch string) {
	t.Helper()
	for _, module := range []string{"github.com/google/nftables", "k8s.io/api"} {
		required := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (\S+)`).FindStringSubmatch(read(t, "../../go.mod"))
		if required == nil || !strings.Contains(bom, `"pkg:golang/`+module+"@"+required[1]) {
			t.Errorf("does not list %s, go.mod has %q", module, required)
		}
	}
	if !strings.Contains(bom, `"pkg:golang/std@`) || !strings.Contains(bom, `"pkg:golang/kube-vmap@`+version+`?goarch=`+arch+`\u0026goos=linux`) || strings.Contains(bom, "go-containerregistry") {
		t.Errorf("is\n%s\nwant Go itself and the version, and nothing of what packs the image", bom)
	}
}

func indexManifest(t *testing.T, index v1.ImageIndex) []v1.Descriptor {
	t.Helper()
	m, err := index.IndexManifest()
	must(t, err)
	return m.Manifests
}

func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return string(content)
}

// must ends the test with an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
