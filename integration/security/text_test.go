package security

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/source/manifests"
)

// hostile ends quotes, lines and log entries, moves cursors and reverses text.
const hostile = "x\"; flush ruleset\ntime=0 level=ERROR msg=\"\r\x1b[2J\x07\u202e\\"

// hostileManifests writes manifests with it in every field that accepts free text, and a
// Service that is valid apart from its annotation.
func hostileManifests(t *testing.T) (folder string) {
	t.Helper()
	quoted := fmt.Sprintf("%q", hostile)
	quoted = strings.ReplaceAll(strings.ReplaceAll(quoted, `\x1b`, `\u001b`), `\a`, `\u0007`) // as in JSON
	const service = `{"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": %s, "name": %s, "annotations": {"kube-vmap.io/scheduler": %s}},
		"spec": {"clusterIP": "10.96.0.%d", "externalIPs": [%s], "ports": [{"name": %s, "port": 80, "protocol": %s}, {"name": "good", "port": 81}]}}`
	const slice = `{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": {"namespace": "default", "name": %s, "labels": {"kubernetes.io/service-name": %s}}, "ports": [{"name": %s, "port": 80}],
		"endpoints": [{"addresses": [%s], "nodeName": %s, "hints": {"forZones": [{"name": %s}]}}]}`
	const good = `"good"`
	files := map[string]string{
		"names":     fmt.Sprintf(service, quoted, quoted, quoted, 1, quoted, quoted, quoted),
		"namespace": fmt.Sprintf(service, quoted, good, good, 2, good, good, good),
		"values":    fmt.Sprintf(service, good, good, quoted, 3, quoted, quoted, quoted),
		"slice":     fmt.Sprintf(slice, quoted, quoted, quoted, quoted, quoted, quoted),
		"endpoints": fmt.Sprintf(slice, good, good, good, quoted, quoted, quoted),
		"kind":      fmt.Sprintf(`{"apiVersion": %s, "kind": %s, "metadata": {"name": %s}}`, quoted, quoted, quoted),
		"field":     fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "good"}, %s: %s}`, quoted, quoted),
		"type":      fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "good"}, "spec": %s}`, quoted),
		"yaml":      "apiVersion: v1\nkind: Service\nspec: *" + hostile,
	}
	folder = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestListingsHoldNoUserText checks that comments are quoted Service names, and that all
// else is nft's own text.
func TestListingsHoldNoUserText(t *testing.T) {
	events, problems := manifests.Load(hostileManifests(t), "node-1")
	if len(events) == 0 || len(problems) < 9 {
		t.Fatalf("%d events, %d problems", len(events), len(problems))
	}
	rules, _ := sync.Build(sync.Config{NodeName: "node-1", Rules: nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}}, events)
	var text strings.Builder
	if err := rules.Render(&text); err != nil {
		t.Fatal(err)
	}
	comments := 0
	for line := range strings.Lines(text.String()) {
		for _, comment := range regexp.MustCompile(`comment (.*?) :`).FindAllStringSubmatch(line, -1) {
			comments++
			if !regexp.MustCompile(`^"[-a-z0-9]+/[-a-z0-9]+(:[-a-z0-9]+)?"$`).MatchString(comment[1]) {
				t.Errorf("a comment is %s", comment[1])
			}
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r != '\n' && r != '\t' && (r < ' ' || r > '~') }) || strings.Contains(line, "flush") {
			t.Errorf("a line of the listing is %q", line)
		}
	}
	if comments == 0 {
		t.Error("there are no comments")
	}
}

// TestLogHasOneLinePerProblem checks the text of problems, as the log and the command render have it.
func TestLogHasOneLinePerProblem(t *testing.T) {
	_, problems := manifests.Load(hostileManifests(t), "node-1")
	for _, p := range problems {
		if strings.ContainsFunc(p.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a problem is printed as %q", p)
		}
	}
}
