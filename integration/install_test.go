package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// sections are those that docs/install has for each distribution.
var sections = []string{"## kube-proxy", "## Values", "## Going back", "## Sources"}

// tried is the statement of a page on whether someone installed it like that.
var tried = regexp.MustCompile(`(?m)^\*\*Tried:\*\* (not tried\.|on .+\.)$`)

// distributions returns the pages of docs/install, except those that are for all.
func distributions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(top, "docs", "install", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages[filepath.Base(file)] = string(text)
	}
	return pages
}

func TestInstallPagesAreComplete(t *testing.T) {
	pages := distributions(t)
	list := pages["README.md"]
	delete(pages, "README.md")
	for _, name := range []string{"kubeadm", "kind", "k3s", "rke2", "k0s", "talos", "eks", "aks", "openshift"} {
		if pages[name+".md"] == "" {
			t.Errorf("docs/install has no page for %s", name)
		}
	}
	for name, text := range pages {
		if !strings.Contains(list, "]("+name+")") {
			t.Errorf("docs/install/README.md does not list %s", name)
		}
		if name == "new-nodes.md" {
			continue
		}
		at := 0
		for _, section := range sections {
			i := strings.Index(text[at:], "\n"+section+"\n")
			if i < 0 {
				t.Errorf("%s lacks %q after the section before", name, section)
				continue
			}
			at += i
		}
		if len(tried.FindAllString(text, -1)) != 1 {
			t.Errorf("%s has no line \"**Tried:** not tried.\" or \"**Tried:** on ....\"", name)
		}
		if !regexp.MustCompile(`(?m)^- <https://[^>]+>$`).MatchString(text[at:]) {
			t.Errorf("%s names no source", name)
		}
	}
}

// block matches a code block with a language, possibly in a list.
var block = regexp.MustCompile("(?ms)^ *```(\\w+)\n(.*?)^ *```$")

func TestInstallSnippetsParse(t *testing.T) {
	for name, text := range distributions(t) {
		for _, match := range block.FindAllStringSubmatch(text, -1) {
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
