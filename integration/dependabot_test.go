package integration

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestDependabotHasEveryModule(t *testing.T) {
	var config struct {
		Updates []struct {
			PackageEcosystem string `json:"package-ecosystem"`
			Directories      []string
		}
	}
	if err := yaml.Unmarshal(read(t, ".github/dependabot.yml"), &config); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, u := range config.Updates {
		if u.PackageEcosystem == "gomod" {
			got = append(got, u.Directories...)
		}
	}
	err := fs.WalkDir(os.DirFS(top), ".", func(file string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && (file == "bin" || file == ".cache" || strings.HasPrefix(file, ".git")) {
			return fs.SkipDir
		}
		if path.Base(file) == "go.mod" {
			want = append(want, path.Join("/", path.Dir(file)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Dependabot has %q, the tree %q", got, want)
	}
}
