package main

import (
	"bytes"
	"debug/elf"
	"flag"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	version  = "v1.2.3-of-a-test"
	revision = "0123456789abcdef0123456789abcdef01234567"
	created  = "1795000000" // 2026-11-18T11:06:40Z
)

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

func TestManifestsUseTheBuiltImage(t *testing.T) {
	image := regexp.MustCompile(`image: (\S*kube-vmap\S*)`)
	for _, file := range []string{"../base/daemonset.yaml", "../base/cleanup.yaml"} {
		asked := image.FindAllSubmatch(read(t, file), -1)
		if len(asked) == 0 {
			t.Errorf("%s does not use our image", file)
		}
		for _, a := range asked {
			if got := string(a[1]); !slices.Contains((release{name: defaultName, version: version}).tags(), got) {
				t.Errorf("%s uses %s", file, got)
			}
		}
	}
	site := regexp.MustCompile(`- name: (\S*kube-vmap)\s+newName: (\S+)\s+newTag: (\S+)`).FindSubmatch(read(t, "../site/kustomization.yaml"))
	if site == nil || string(site[1]) != defaultName || !slices.Contains((release{name: defaultName}).tags(), string(site[2])+":"+string(site[3])) {
		t.Errorf("site has %q for %s", site, defaultName)
	}
}

func TestGoEnvFileIsIgnored(t *testing.T) {
	stored := filepath.Join(t.TempDir(), "env")
	const text = "GOOS=plan9\nGOARCH=386\nGOAMD64=v3\nGOARM64=v9.0\nCGO_ENABLED=1\n" +
		"GOFLAGS=-race\nGOEXPERIMENT=none\nGOFIPS140=latest\nGOWORK=/nowhere\n"
	if err := os.WriteFile(stored, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// target has what Go builds for; its tags include the experiments.
	target := func(env []string, file string) string {
		t.Helper()
		cmd := exec.Command("go", "list", "-f", "{{context.GOOS}} {{context.GOARCH}} {{context.CgoEnabled}} {{context.ToolTags}}", "unsafe")
		cmd.Env = append(env, "GOENV="+file)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go list with GOENV=%s: %v\n%s", file, err, out)
		}
		return string(out)
	}
	for _, p := range []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}} {
		plain := append(os.Environ(),
			"GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off")
		want := target(plain, "off")
		for _, file := range []string{"off", stored} {
			if got := target(environment(p), file); got != want {
				t.Errorf("%v, GOENV=%s: builds for %s, want %s", p, file, got, want)
			}
		}
	}
}

// arch limits what TestImage builds, because all architectures take some minutes.
var arch = flag.String("arch", "amd64,arm64", "build for these architectures")

func tested() []string { return strings.Split(*arch, ",") }

// system limits for what kubectl-vmap is built.
var system = flag.String("os", "linux,darwin,windows", "build kubectl-vmap for these systems")

func testedSystems() []string { return strings.Split(*system, ",") }

// TestImage builds twice, in two folders. Its subtests share the result.
func TestImage(t *testing.T) {
	one, other := t.TempDir(), filepath.Join(t.TempDir(), "deeper", "down")
	copyTree(t, filepath.Join("..", ".."), one)
	copyTree(t, one, other)
	out, again := makeImage(t, one), makeImage(t, other)

	t.Run("TwoCheckoutsGiveTheSameBytes", func(t *testing.T) {
		files := filesIn(t, out)
		want := []string{"SHA256SUMS", "kube-vmap-" + version[1:] + ".tgz", "kube-vmap-man.tar.gz", "kube-vmap-manifests.tar.gz", "kube-vmap.tar", krewManifest}
		for _, arch := range tested() {
			for _, system := range testedSystems() {
				want = append(want, pluginArchive(platform{system, arch}))
			}
			want = append(want, "kube-vmap-"+arch+".cdx.json", "kube-vmap-"+arch+".tar", "kube-vmap-linux-"+arch)
		}
		if slices.Sort(want); !slices.Equal(files, want) {
			t.Fatalf("files %v, want %v", files, want)
		}
		for _, file := range files {
			if !bytes.Equal(read(t, filepath.Join(out, file)), read(t, filepath.Join(again, file))) {
				t.Errorf("%s differs", file)
			}
		}
	})
	t.Run("Assets", func(t *testing.T) { checkAssets(t, out) })
	t.Run("KrewInstallsThePlugin", func(t *testing.T) { checkKrew(t, out) })
	t.Run("ArchiveOfAllHasOneImageForEachArchitecture", func(t *testing.T) {
		index := openLayout(t, archivePath(out, ""))
		checkNames(t, index, types.OCIImageIndex)
		all, err := index.ImageIndex(indexManifest(t, index).Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range indexManifest(t, all).Manifests {
			got = append(got, d.Platform.Architecture)
			image, err := all.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkConfig(t, image, d.Platform.Architecture)
		}
		if !slices.Equal(got, tested()) {
			t.Errorf("holds %v, want %v", got, tested())
		}
	})
	for _, arch := range tested() {
		t.Run("ArchiveLoadsIntoContainerdAndDocker/"+arch, func(t *testing.T) {
			path := archivePath(out, arch)
			index := openLayout(t, path)
			checkNames(t, index, types.OCIManifestSchema1)
			for _, full := range []string{"localhost/kube-vmap:" + version, "localhost/kube-vmap:latest"} {
				checkDockerImage(t, path, full, arch)
			}
			image, err := index.Image(indexManifest(t, index).Manifests[0].Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkConfig(t, image, arch)
		})
		t.Run("StaticBinaryIsTheOnlyFile/"+arch, func(t *testing.T) {
			index := openLayout(t, archivePath(out, arch))
			image, err := index.Image(indexManifest(t, index).Manifests[0].Digest)
			if err != nil {
				t.Fatal(err)
			}
			binary := onlyFile(t, image)
			checkBinary(t, binary, arch)
			if !bytes.Equal(binary, read(t, filepath.Join(out, binaryName(arch)))) {
				t.Errorf("%s is not the binary of the image", binaryName(arch))
			}
		})
		t.Run("SBOMListsWhatWasLinked/"+arch, func(t *testing.T) {
			checkSBOM(t, sbomPath(out, arch), arch)
		})
	}
}

func TestInvalidImageNamesAreRefused(t *testing.T) {
	for _, version := range []string{"a tag", "v1+dirty", strings.Repeat("v", 129)} {
		var stderr strings.Builder
		code := run([]string{"-version", version, "-revision", revision, "-created", created, "-out", t.TempDir()}, io.Discard, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), "-version") {
			t.Errorf("version %q: exit code %d, %q", version, code, stderr.String())
		}
	}
}

func TestTimeIsSourceDateEpoch(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", created)
	r, err := release{name: "localhost/kube-vmap", version: version, revision: revision}.complete(".")
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Unix(1795000000, 0); !r.created.Equal(want) {
		t.Errorf("created %v, want %v", r.created, want)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := (release{}).complete("."); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("SOURCE_DATE_EPOCH=yesterday: %v", err)
	}
}

// copyTree copies the source tree of kube-vmap.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(from), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == ".":
			return nil
		case entry.IsDir() && (path[0] == '.' || path == "bin" || path == "integration" || path == "deploy/image" || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !entry.Type().IsRegular():
			return nil
		}
		target := filepath.Join(to, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, read(t, filepath.Join(from, path)), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// makeImage runs the command and returns the output folder.
func makeImage(t *testing.T, root string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image")
	var stdout, stderr strings.Builder
	args := []string{"-release", "-arch", *arch, "-os", *system, "-root", root, "-out", out, "-version", version, "-revision", revision, "-created", created}
	if code := run(args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	for _, want := range []string{"localhost/kube-vmap:" + version, "linux/" + tested()[0], "sha256:", "images import " + archivePath(out, "")} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is not in the report:\n%s", want, stdout.String())
		}
	}
	return out
}

func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
