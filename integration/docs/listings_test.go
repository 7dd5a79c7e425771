// Package docs compares the listings in docs/design.md with the golden files that they are taken
// from, which are nft's own listings of what the kernel holds, so that the page cannot differ from
// the rule set. With -update it rewrites them. It does the same for the pictures of docs/pictures and
// the texts that they are drawn from.
//
// The place of a listing is a comment that names a golden of integration/ruleset and the
// objects to list, in the order of the page, and a comment that ends it:
//
//	<!-- listing: walk dispatch services -->
//	...
//	<!-- end -->
package docs

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the listings in docs/design.md, and the pictures")

var place = regexp.MustCompile(`(?s)(<!-- listing: (\S+) (.*?) -->\n)(.*?)(<!-- end -->)`)

func TestListingsEqualGoldens(t *testing.T) {
	const page = "../../docs/design.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "<!-- listing: "); n == 0 || n != len(place.FindAll(text, -1)) {
		t.Fatalf("some of %d listings have no end", n)
	}
	fresh := place.ReplaceAllStringFunc(string(text), func(listing string) string {
		parts := place.FindStringSubmatch(listing)
		return parts[1] + "\n" + read(t, parts[2], strings.Fields(parts[3])) + "\n" + parts[5]
	})
	switch {
	case fresh == string(text):
	case !*update:
		t.Error("the listings in docs/design.md differ from the goldens; run make docs")
	default:
		if err := os.WriteFile(page, []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns objects of the table of family ip of a golden as a code block of Markdown.
func read(t *testing.T, golden string, names []string) string {
	t.Helper()
	a, err := txtar.ParseFile("../ruleset/testdata/" + golden + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{} // by name
	for _, f := range a.Files {
		if f.Name != "ruleset.nft" {
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
			t.Fatalf("the golden %s has no %s", golden, name)
		}
		listing = append(listing, objects[name])
	}
	return strings.Join(listing, "\n\n") + "\n"
}
