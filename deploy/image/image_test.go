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

// A program has an image, and in its SBOM some of the modules of its go.mod.
type program struct {
	name, user     string
	module, folder string
	linked         []string
}

var programs = []program{
	{"kube-vmap", "0:0", "kube-vmap", "../..", []string{"github.com/google/nftables", "k8s.io/api"}},
	{"kube-vmap-scaler", "65532:65532", "kube-vmap/deploy/scaler", "../scaler", []string{"github.com/kedacore/keda/v2", "google.golang.org/grpc"}},
}

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
	// Build: what is tested. Only the package's limit, an hour in .ci/unit, includes it.
	build := exec.Command("../../.ci/image", version, out)
	build.Env = append(os.Environ(), "RELEASE=1", "ARCH="+*arch, "SYSTEMS="+*system, "REVISION="+revision,
		"SOURCE_DATE_EPOCH=1795000000", "GOENV="+stored)
	if text, err := build.CombinedOutput(); err != nil || !bytes.Contains(text, []byte("images import "+out)) {
		t.Fatalf("%v:\n%s", err, text)
	}
	want := []string{
		"SHA256SUMS", "kube-vmap-" + version[1:] + ".tgz", "kube-vmap-man.tar.gz", "kube-vmap-manifests.tar.gz",
		"vmap.yaml",
	}
	for _, arch := range strings.Fields(*arch) {
		for _, system := range strings.Fields(*system) {
			want = append(want, "kubectl-vmap-"+system+"-"+arch+".tar.gz")
		}
		want = append(want, "kube-vmap-linux-"+arch, "kube-vmap-linux-"+arch+"-licenses.tar.gz")
	}
	for _, p := range programs {
		want = append(want, p.name+".tar")
		for _, arch := range strings.Fields(*arch) {
			want = append(want, p.name+"-"+arch+".cdx.json", p.name+"-"+arch+".tar")
		}
	}
	if files := filesIn(t, out); !slices.Equal(files, slices.Sorted(slices.Values(want))) {
		t.Fatalf("files %v, want %v", files, want)
	}
	t.Run("Assets", func(t *testing.T) { checkAssets(t, out) })
	t.Run("KrewInstallsThePlugin", func(t *testing.T) { checkKrew(t, out) })
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			p.checkLayout(t, filepath.Join(out, p.name+".tar"))
			for _, arch := range strings.Fields(*arch) {
				for _, tag := range []string{tag, "latest"} { // as docker load reads it
					full, err := name.NewTag("localhost/" + p.name + ":" + tag)
					must(t, err)
					image, err := tarball.ImageFromPath(filepath.Join(out, p.name+"-"+arch+".tar"), &full)
					if err != nil {
						t.Fatalf("%s: %v", full, err)
					}
					if binary := p.checkImage(t, image, arch); p.name == "kube-vmap" && binary != read(t, out, "kube-vmap-linux-"+arch) {
						t.Errorf("%s: the image has another binary", arch)
					}
				}
				p.checkSBOM(t, read(t, out, p.name+"-"+arch+".cdx.json"), arch)
			}
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

// checkLayout unpacks an OCI layout of one image for each architecture, and checks all digests, sizes
// and media types in it.
func (p program) checkLayout(t *testing.T, path string) {
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
		if a["org.opencontainers.image.ref.name"] != tag || a["io.containerd.image.name"] != "localhost/"+p.name+":"+tag {
			t.Errorf("names %v, want the one of tag %s", a, tag)
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
		p.checkImage(t, image, d.Platform.Architecture)
	}
	if want := strings.Fields(*arch); !slices.Equal(got, want) {
		t.Errorf("holds %v, want %v", got, want)
	}
}

// checkImage checks the configuration and the files, which are the binary, which it returns, and license
// texts.
func (p program) checkImage(t *testing.T, image v1.Image, arch string) string {
	t.Helper()
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	c, err := image.ConfigFile()
	must(t, err)
	if c.OS != "linux" || c.Architecture != arch {
		t.Errorf("the image is for %s/%s, want linux/%s", c.OS, c.Architecture, arch)
	}
	if !slices.Equal(c.Config.Entrypoint, []string{"/" + p.name}) || c.Config.Cmd != nil {
		t.Errorf("runs %q %q, want /%s alone", c.Config.Entrypoint, c.Config.Cmd, p.name)
	}
	if c.Config.User != p.user || len(c.Config.Env) != 0 {
		t.Errorf("user %q, environment %q; want %s and none", c.Config.User, c.Config.Env, p.user)
	}
	for key, want := range map[string]string{
		"title": p.name, "version": version, "revision": revision, "created": "2026-11-18T11:06:40Z",
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
		executable := header.Name == p.name || header.Typeflag == tar.TypeDir
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
	checkBinary(t, files[p.name], arch)
	checkLicenses(t, files, p.name)
	return files[p.name]
}

// checkLicenses checks that there is a license text for each module that is linked into a program, and
// for Go's library, and nothing else.
func checkLicenses(t *testing.T, files map[string]string, program string) {
	t.Helper()
	info, err := buildinfo.Read(strings.NewReader(files[program]))
	must(t, err)
	modules := []string{"std"}
	for _, module := range info.Deps {
		if module.Replace == nil { // in other modules of ours, kube-vmap itself
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
func (p program) checkSBOM(t *testing.T, bom, arch string) {
	t.Helper()
	for _, module := range p.linked {
		required := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (\S+)`).FindStringSubmatch(read(t, p.folder, "go.mod"))
		if required == nil || !strings.Contains(bom, `"pkg:golang/`+module+"@"+required[1]) {
			t.Errorf("does not list %s, go.mod has %q", module, required)
		}
	}
	if !strings.Contains(bom, `"pkg:golang/std@`) || !strings.Contains(bom, `"pkg:golang/`+p.module+`@`+version+`?goarch=`+arch+`\u0026goos=linux`) || strings.Contains(bom, "go-containerregistry") || strings.Contains(bom, "../..") {
		t.Errorf("is\n%s\nwant Go itself and the version, no path, and nothing of what packs the image", bom)
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
