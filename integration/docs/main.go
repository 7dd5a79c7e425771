// Command docs brings the listings in README.md up to date: each is taken from a
// golden file, which is what the kernel and nft made of a rule set, so that the
// README shows nothing that is not so.
//
// A place for a listing is a comment that names a golden of integration/ruleset,
// and a comment that ends it:
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
	"strings"

	"golang.org/x/tools/txtar"
)

const (
	readme  = "README.md"
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

// update rewrites the README of the repository at root.
func update(root string) error {
	path := filepath.Join(root, readme)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read README: %w", err)
	}
	fresh, err := fill(root, string(text))
	if err != nil {
		return err
	}
	if bytes.Equal(text, []byte(fresh)) {
		return nil
	}
	if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
		return fmt.Errorf("write README: %w", err)
	}
	return nil
}

// fill puts the listings into their places.
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
			return "", fmt.Errorf("listing %s: no %s behind it", name, end)
		}
		listing, err := read(root, name)
		if err != nil {
			return "", err
		}
		out.WriteString(begin + name + closing + "\n" + listing + "\n" + end)
		text = after
	}
}

// read is the table of family ip of a golden, as a block of Markdown.
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
		block := "    " + strings.ReplaceAll(table, "\n", "\n    ") + "\n"
		return strings.ReplaceAll(block, "    \n", "\n"), nil
	}
	return "", fmt.Errorf("listing %s: %w", name, errors.New("the golden has no "+section))
}
