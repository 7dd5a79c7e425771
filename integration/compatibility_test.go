package integration

import (
	"regexp"
	"strings"
	"testing"

	"kube-vmap/cmd/programs"
)

const compatibility = "docs/compatibility.md"

var (
	rowID     = regexp.MustCompile(`<a id="([a-z0-9-]+)"></a>`)
	namedTest = regexp.MustCompile("`([a-z0-9/-]+\\.Test[A-Za-z0-9_]+)`")
	linkedTo  = regexp.MustCompile(`\]\(https?://[^)]+\)`)
)

// verdicts are the page's words for those of package components.
var verdicts = map[programs.Verdict]string{
	programs.Fine: "works", programs.Partial: "works in part", programs.Needs: "needs a setting", programs.Conflict: "conflict",
}

// TestEveryComponentHasARow compares the page with the components that preflight
// recognizes, which prints links to its rows.
func TestEveryComponentHasARow(t *testing.T) {
	missing := map[string]string{} // verdicts by ID
	for _, c := range programs.All() {
		missing[c.ID] = verdicts[c.Verdict]
	}
	for _, row := range compatibilityRows(t) {
		for _, m := range rowID.FindAllStringSubmatch(row[0], -1) {
			if want := missing[m[1]]; want == "" || want != row[2] {
				t.Errorf("%s: the page has %q, package components %q; or it is there twice", m[1], row[2], want)
			}
			delete(missing, m[1])
		}
	}
	for id := range missing {
		t.Errorf("%s has no row for %s", compatibility, id)
	}
}

// TestEveryCompatibilityRowNamesHowItIsKnown also checks that the named tests exist.
func TestEveryCompatibilityRowNamesHowItIsKnown(t *testing.T) {
	existing := testsByFolder(t)
	for _, row := range compatibilityRows(t) {
		how, rest, _ := strings.Cut(row[4], ":")
		named := namedTest.FindAllStringSubmatch(rest, -1)
		switch how {
		case "run here", "replayed":
			if len(named) == 0 {
				t.Errorf("%s: %q without a test", row[0], how)
			}
		case "documentation":
			if !linkedTo.MatchString(rest) {
				t.Errorf("%s: documentation without a link", row[0])
			}
		default:
			t.Errorf("%s: not known: %q", row[0], row[4])
		}
		for _, m := range named {
			if !existing[m[1]] {
				t.Errorf("%s: there is no test %s", row[0], m[1])
			}
		}
		if row[1] == "" || row[3] == "" {
			t.Errorf("%s: no version or no reason", row[0])
		}
	}
}

// compatibilityRows returns the cells of the rows that have an ID.
func compatibilityRows(t *testing.T) (rows [][]string) {
	t.Helper()
	for line := range strings.Lines(string(read(t, compatibility))) {
		if !strings.HasPrefix(line, "| <a id=") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			t.Fatalf("%d cells instead of 5: %s", len(cells), line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", compatibility)
	}
	return rows
}
