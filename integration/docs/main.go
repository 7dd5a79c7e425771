// Command docs updates the listings in docs/design.md. Each is taken from a golden
// file, which is nft's own listing of what the kernel holds, so that the page cannot
// differ from the rule set.
//
// The place of a listing is a comment that names a golden of integration/ruleset and the
// objects to list, in the order of the page, and a comment that ends it:
//
//	<!-- listing: walk dispatch services -->
//	...
//	<!-- end -->
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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
		listed, rest, _ := strings.Cut(rest, closing)
		_, after, closed := strings.Cut(rest, end)
		if !closed {
			return "", fmt.Errorf("listing %s: no %s after it", listed, end)
		}
		names := strings.Fields(listed)
		listing, err := read(root, names[0], names[1:])
		if err != nil {
			return "", fmt.Errorf("listing %s: %w", listed, err)
		}
		out.WriteString(begin + listed + closing + "\n" + listing + "\n" + end)
		text = after
	}
}

// read returns objects of the table of family ip of a golden as a code block of Markdown.
func read(root, golden string, names []string) (string, error) {
	a, err := txtar.ParseFile(filepath.Join(root, goldens, golden+".txtar"))
	if err != nil {
		return "", err
	}
	objects := map[string]string{} // by name
	for _, f := range a.Files {
		if f.Name != section {
			continue
		}
		table, _, _ := strings.Cut(string(f.Data), "table ip6 ")
		_, table, _ = strings.Cut(strings.TrimSuffix(strings.TrimSpace(table), "\n}"), "{\n")
		for object := range strings.SplitSeq(strings.ReplaceAll(table, "\t", "    "), "\n\n") {
			objects[strings.Fields(object)[1]] = strings.TrimSuffix(object, "\n")
		}
	}
	var listing []string
	for _, name := range names {
		if objects[name] == "" {
			return "", fmt.Errorf("the golden %s has no %s", golden, name)
		}
		listing = append(listing, objects[name])
	}
	return strings.Join(listing, "\n\n") + "\n", nil
}
