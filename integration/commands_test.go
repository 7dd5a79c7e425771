package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

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

// block matches a code block with a language, possibly in a list.
var block = regexp.MustCompile("(?ms)^ *```(\\w+)\n(.*?)^ *```$")

func TestInstallSnippetsParse(t *testing.T) {
	for _, name := range pages(t, "docs/install/*.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range block.FindAllStringSubmatch(string(text), -1) {
			language, snippet := match[1], match[2]
			var err error
			switch language {
			case "yaml":
				for document := range strings.SplitSeq(snippet, "\n---\n") {
					var object map[string]any
					if err == nil {
						err = yaml.UnmarshalStrict([]byte(document), &object)
					}
				}
			case "sh":
				shell := exec.CommandContext(t.Context(), "bash", "-n")
				shell.Stdin = strings.NewReader(snippet)
				_, err = shell.Output()
			default:
				t.Errorf("%s: nothing checks a snippet in %s", name, language)
			}
			if err != nil {
				t.Errorf("%s: %v in\n%s", name, err, snippet)
			}
		}
	}
}

// TestNothingIsBuiltWhileTestsRun finds programs in the code of tests that build, download or
// install: a test's limits of time are for hangs, and allow for none of these. A comment just
// before, which begins with "Build:", says why it does not matter there.
func TestNothingIsBuiltWhileTestsRun(t *testing.T) {
	builds := regexp.MustCompile(`\b(Command|CommandContext)\(.*"(go|make|npm|npx|apt-get|curl|wget)"|` +
		`\b(Command|CommandContext)\(.*"[^"]*\.ci/|Program: +"(go|make|npm|npx)"`)
	found := 0
	for _, f := range sources(t) {
		if !f.test && !strings.HasPrefix(f.path, "integration/") {
			continue
		}
		lines := strings.Split(string(read(t, f.path)), "\n")
		for i, line := range lines {
			if !builds.MatchString(line) {
				continue
			}
			found++
			if before := strings.Join(lines[max(0, i-3):i], "\n"); !strings.Contains(before, "// Build: ") {
				t.Errorf("%s:%d builds while tests run: %s", f.path, i+1, strings.TrimSpace(line))
			}
		}
	}
	if found == 0 {
		t.Error("no program that builds was found, not even in integration/daemon/built")
	}
}
