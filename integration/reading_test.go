package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
