package integration

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

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
