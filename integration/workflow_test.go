package integration

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is a workflow of GitHub Actions, as far as it matters here.
type workflow struct {
	On          map[string]any    `json:"on"`
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Steps []struct{ Name, Uses, Run string } `json:"steps"`
	} `json:"jobs"`
}

// TestHostedCIRunsEverything reads the workflow for hosted CI: it runs .ci/run with the
// Go of go.mod, may only read, and names the version of each action it uses.
func TestHostedCIRunsEverything(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal(content(t, "../.github/workflows/ci.yml"), &w); err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{"push", "pull_request"} {
		if _, ok := w.On[event]; !ok {
			t.Errorf("does not run on %s", event)
		}
	}
	if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
		t.Errorf("permissions %v, want to read contents and no other", w.Permissions)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(content(t, "../go.mod"))
	command := regexp.MustCompile(`\bgolang:` + regexp.QuoteMeta(string(version[1])) + `-\S+ \.ci/run$`)
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@(v\d+|[0-9a-f]{40})$`)
	runs := false
	for _, job := range w.Jobs {
		for _, step := range job.Steps {
			runs = runs || command.MatchString(strings.TrimSpace(step.Run))
			if step.Uses != "" && !pinned.MatchString(step.Uses) {
				t.Errorf("uses %q, want a major version or a commit", step.Uses)
			}
		}
	}
	if !runs {
		t.Errorf("no step runs .ci/run in an image that matches %s", command)
	}
	if info, err := os.Stat("../.ci/run"); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf(".ci/run cannot be run: %v", err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
