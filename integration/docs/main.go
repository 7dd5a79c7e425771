// Command docs updates the listings in docs/design.md. Each is taken from a golden
// file, which is nft's own listing of what the kernel holds, so that the page cannot
// differ from the rule set.
//
// The place of a listing is a comment that names a golden of integration/ruleset, and
// a comment that ends it:
//
//	<!-- listing: walk -->
//	...
//	<!-- end -->
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/txtar"
)

const (
	page    = "docs/design.md"
	goldens = "integration/ruleset/testdata"
	section = "ruleset.nft"
	begin   = "<!-- listing: "
	closing = " -->\n"
	end     = "<!-- end -->"
)

// emptyObject matches a counter, and a set or map without elements.
var emptyObject = regexp.MustCompile(`(?m)^    (?:map|set|counter) [a-z-]+ \{\n(?:[^}=]*\n)?    \}\n\n?`)

func main() {
	if err := update("."); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// update rewrites the page of the repository at root.
func update(root string) error {
	path := filepath.Join(root, page)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read page: %w", err)
	}
	fresh, err := fill(root, string(text))
	if err != nil {
		return err
	}
	if bytes.Equal(text, []byte(fresh)) {
		return nil
	}
	if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// fill returns the text with the listings filled in.
func fill(root, text string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, begin)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, rest, _ := strings.Cut(rest, closing)
		_, after, closed := strings.Cut(rest, end)
		if !closed {
			return "", fmt.Errorf("listing %s: no %s after it", name, end)
		}
		listing, err := read(root, name)
		if err != nil {
			return "", err
		}
		out.WriteString(begin + name + closing + "\n" + listing + "\n" + end)
		text = after
	}
}

// read returns the table of family ip of a golden, without counters and empty sets and
// maps, as a code block of Markdown.
func read(root, name string) (string, error) {
	a, err := txtar.ParseFile(filepath.Join(root, goldens, name+".txtar"))
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", name, err)
	}
	for _, f := range a.Files {
		if f.Name != section {
			continue
		}
		table, _, _ := strings.Cut(string(f.Data), "table ip6 ")
		table = strings.ReplaceAll(strings.TrimSpace(table), "\t", "    ")
		table = emptyObject.ReplaceAllString(table, "")
		table = strings.ReplaceAll(table, "\n\n}", "\n}")
		block := "    " + strings.ReplaceAll(table, "\n", "\n    ") + "\n"
		return strings.ReplaceAll(block, "    \n", "\n"), nil
	}
	return "", fmt.Errorf("listing %s: %w", name, errors.New("the golden has no "+section))
}
