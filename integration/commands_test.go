package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/docstest"
)

// TestMakeCommandsInDocumentsExist checks targets and variables. Tests of the programs check those
// of kube-vmap and kubectl vmap.
func TestMakeCommandsInDocumentsExist(t *testing.T) {
	makefile := string(read(t, "Makefile"))
	commands := docstest.Commands(t, top, "make")
	if len(commands) < 20 {
		t.Errorf("only %d commands were found", len(commands))
	}
	for _, c := range commands {
		for _, word := range c.Args {
			pattern := `(?m)^` + regexp.QuoteMeta(word) + `:.*## `
			if name, _, ok := strings.Cut(word, "="); ok {
				pattern = `\$[({](or \$\()?` + name + `[)}:-]`
			}
			if !regexp.MustCompile(pattern).MatchString(makefile + string(read(t, ".ci/image"))) {
				t.Errorf("%s: make %s: there is no %s", c.Place, strings.Join(c.Args, " "), word)
			}
		}
	}
}

// TestPathsInCommandsExist checks what kubectl and others are given of this tree.
func TestPathsInCommandsExist(t *testing.T) {
	ours := regexp.MustCompile(`^@?((?:deploy|docs|integration|cmd|\.ci)/[^;|]+)`)
	found := 0
	for _, program := range []string{"kubectl", "sed", "install", "helm", "go", "deploy/configure"} {
		for _, c := range docstest.Commands(t, top, program) {
			for _, word := range append(c.Args, strings.Fields(program)...) {
				match := ours.FindStringSubmatch(word)
				if match == nil || strings.Contains(word, "...") {
					continue
				}
				found++
				if files, err := filepath.Glob(filepath.Join(top, match[1])); err != nil || len(files) == 0 {
					t.Errorf("%s: %s %s: %s: %v", c.Place, program, strings.Join(c.Args, " "), match[1], os.ErrNotExist)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d paths were found", found)
	}
}
