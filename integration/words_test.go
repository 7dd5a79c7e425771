package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// plainWords are words of an earlier vocabulary, which searches do not find, and what
// to write instead.
var plainWords = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)convict|acquit|culprit|\bon ?trial\b`), "quarantine, release, offender, retry"},
	{regexp.MustCompile(`(?i)\broll[ .]call\b|\bstrikes?\b`), "index, rebuild, remove"},
	{regexp.MustCompile(`(?i)\b(un)?told\b|\btell(s|ing)?\b|\bteller`), "report, log, notify, return"},
	{regexp.MustCompile(`\b(un)?tell[A-Z]|\b[a-z]+Told\b|Test\w*Told`), "report, log, notify, return"},
	{regexp.MustCompile(`[Nn]obody|[Ss]omebody`), "no caller, no process, another process"},
	{regexp.MustCompile(`(?i)\bwho (waits|asks|looks|wants)\b|\bwhose it is\b`), "waiters, callers, the owner"},
	{regexp.MustCompile(`(?i)\b(stands?|stood)\b`), "exists, is installed, the current state"},
	{regexp.MustCompile(`(?i)\banew\b|\bat once\b|\bfor good\b`), "again, immediately, permanently"},
	{regexp.MustCompile(`(?i)\bleft out\b|\bset aside\b`), "skipped, quarantined"},
	{regexp.MustCompile(`(?i)\bsaid\b|\b(it|that|which|kernel|server|object|file|test|log|message|answer|page|list|name|config|manifest)s? says?\b`), "reports, returns, contains, logs"},
	{regexp.MustCompile(`\bunheard\b|\bstarved?\b|\bbrevity\b|\blastWords\b|\btroubleArgs\b|\bifAble\b`), "see the table of names in the style guide"},
}

func TestOldVocabularyIsGone(t *testing.T) {
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = top
	files, err := list.Output()
	if err != nil {
		t.Skipf("the tree is not a git checkout: %v", err)
	}
	for _, path := range strings.Split(strings.TrimRight(string(files), "\x00"), "\x00") {
		if filepath.Base(path) == "words_test.go" || filepath.Ext(path) == ".sum" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, path))
		if err != nil || bytes.IndexByte(text, 0) >= 0 { // deleted, or not text
			continue
		}
		for n, line := range bytes.Split(text, []byte("\n")) {
			for _, w := range plainWords {
				if found := w.pattern.Find(line); found != nil {
					t.Errorf("%s:%d: %q: write %s", path, n+1, found, w.instead)
				}
			}
		}
	}
}
