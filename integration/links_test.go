package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func pages(t *testing.T, patterns ...string) (all []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchorRemoved  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchorOf returns the anchor that GitHub gives to a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(anchorRemoved.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
}

func TestLinksInDocumentsResolve(t *testing.T) {
	for _, page := range pages(t, "*.md", "docs/*.md", "docs/install/*.md", "docs/reports/*.md", "deploy/*.md", "deploy/helm/*.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range linkPattern.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(link[1], "://") {
				checkLink(t, page, link[1])
			}
		}
	}
}

// TestAnchorsInSourcesResolve checks the parts of documents that commands print.
func TestAnchorsInSourcesResolve(t *testing.T) {
	printed := regexp.MustCompile(`"((?:docs|deploy)/[^"]+\.md#[^"]+)"`)
	found := 0
	for _, f := range sources(t) {
		text, err := os.ReadFile(filepath.Join(top, f.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range printed.FindAllStringSubmatch(string(text), -1) {
			found++
			checkLink(t, filepath.Join(top, "README.md"), m[1])
		}
	}
	if found == 0 {
		t.Error("no source names a part of a document")
	}
}

func checkLink(t *testing.T, page, link string) {
	t.Helper()
	path, anchor, hasAnchor := strings.Cut(link, "#")
	target := page
	if path != "" {
		target = filepath.Join(filepath.Dir(page), path)
	}
	text, err := os.ReadFile(target)
	if info, statErr := os.Stat(target); err != nil && (statErr != nil || !info.IsDir()) {
		t.Errorf("%s: link %s: %v", page, link, err)
		return
	}
	if !hasAnchor {
		return
	}
	for _, heading := range headingPattern.FindAllStringSubmatch(string(text), -1) {
		if anchorOf(heading[1]) == anchor {
			return
		}
	}
	if !strings.Contains(string(text), `<a id="`+anchor+`">`) {
		t.Errorf("%s: link %s: no such heading", page, link)
	}
}

// A path in docs/reading.md is a file, a folder or a package, from the top of the tree
// or, for a bare file name, from any folder that is named before it on the line.
func TestFilesOfTheReadingGuideExist(t *testing.T) {
	quoted := regexp.MustCompile("`([a-z][a-z0-9_./-]*)`")
	text := strings.ReplaceAll(string(read(t, "docs/reading.md")), "\n  ", " ") // what a list item continues
	for line := range strings.Lines(text) {
		folders := []string{"."}
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			path := match[1]
			if !strings.ContainsAny(path, "./") {
				continue // a command or a word
			}
			found := false
			for _, folder := range folders {
				info, err := os.Stat(filepath.Join(top, folder, path))
				if err != nil {
					continue
				}
				found = true
				full := filepath.Join(folder, path)
				if !info.IsDir() {
					full = filepath.Dir(full)
				}
				folders = append(folders, full)
				break
			}
			if !found {
				t.Errorf("docs/reading.md names %s, which does not exist", path)
			}
		}
	}
}
