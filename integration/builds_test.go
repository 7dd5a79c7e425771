package integration

import (
	"regexp"
	"strings"
	"testing"
)

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
