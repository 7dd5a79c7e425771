package ruleset

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kube-vmap/model"
	"kube-vmap/nft"
)

type program struct {
	version string
	path    string // empty if it cannot be had here
	// loadsLongUpdates says that the version can load a rule which updates a map, if
	// its key and data are of IPv6. nft 1.0.6 lists it, but to load it, it does not
	// find room in the registers and aborts (netlink_gen_expr).
	loadsLongUpdates bool
}

// loads reports whether the version can load the rules of a world in a family.
func (p program) loads(w *world, f model.Family) bool {
	return p.loadsLongUpdates || f == model.IPv4 || !w.remembers()
}

// installed is the nft of this machine, by which goldens are written.
func installed(t testing.TB) program {
	t.Helper()
	path, err := exec.LookPath("nft")
	if err != nil {
		path = "/usr/sbin/nft" // not every root's path has it
	}
	return program{version: "the installed", path: path}
}

// newer are the versions that .ci/nft-versions fetches.
var newer = []program{fetched("trixie"), fetched("forky")}

// versions returns every version.
func versions(t testing.TB) []program {
	t.Helper()
	return append([]program{installed(t)}, newer...)
}

// fetched returns the version of a Debian release.
func fetched(release string) program {
	version := "of Debian " + release
	path, err := filepath.Abs("../../.cache/nft/" + release + "/nft")
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return program{version: version}
	}
	return program{version, path, true}
}

// outcome is how a run of nft ended.
type outcome struct {
	stdout, stderr string
	err            error
}

// mustBeHad skips a test that needs a version which is missing. .ci/gotest accepts these words.
func (p program) mustBeHad(t *testing.T) {
	t.Helper()
	if p.path == "" {
		t.Skipf("nft %s cannot be had", p.version)
	}
}

func (p program) run(m *machine, stdin string, args ...string) outcome {
	m.t.Helper()
	var out, errs bytes.Buffer
	cmd := m.host.Command(m.t.Context(), p.path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	return outcome{out.String(), errs.String(), err}
}

// load runs commands of nft, which must print nothing.
func (p program) load(m *machine, commands string) {
	m.t.Helper()
	if o := p.run(m, commands, "-f", "-"); o.err != nil || o.stdout+o.stderr != "" {
		m.t.Fatalf("nft %s -f: %v\n%s%s\nof:\n%s", p.version, o.err, o.stdout, o.stderr, commands)
	}
}

// list returns nft's listing of both our tables, with blocks sorted by kind and name. nft
// must print nothing on stderr.
func (p program) list(m *machine) string {
	m.t.Helper()
	var all strings.Builder
	for _, f := range model.Families {
		all.WriteString(p.listTable(m, f))
	}
	return all.String()
}

func (p program) listTable(m *machine, f model.Family, flags ...string) string {
	m.t.Helper()
	o := p.run(m, "", append([]string{"-s"}, append(flags, "list", "table", nft.FamilyName(f), nft.TableName())...)...)
	if o.err != nil || o.stderr != "" {
		m.t.Fatalf("nft %s list table %s: %v\n%s", p.version, nft.FamilyName(f), o.err, o.stderr)
	}
	return outputPriority.Replace(sortBlocks(count.ReplaceAllString(o.stdout, "")))
}

// count is what 1.1.7 adds to the size of a set.
var count = regexp.MustCompile(`\t# count \d+`)

// anyOrder sorts the elements of each set: 1.1.7 lists them in another order.
func anyOrder(listing string) string {
	return elements.ReplaceAllStringFunc(listing, func(all string) string {
		list := strings.FieldsFunc(strings.Trim(all, "{}"), func(r rune) bool { return r == ',' || r == '\n' })
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		slices.Sort(list)
		return strings.Join(list, "\n")
	})
}

var elements = regexp.MustCompile(`\{[^{}]*\}`)

// outputPriority removes a difference between versions: 1.0.6 lists priorities by name only
// at prerouting and postrouting, 1.1.3 at output and input as well.
var outputPriority = strings.NewReplacer(
	"hook output priority dstnat;", "hook output priority -100;",
	"hook output priority dstnat - 1;", "hook output priority -101;",
	"hook output priority dstnat - 10;", "hook output priority -110;",
	"hook output priority dstnat + 1;", "hook output priority -99;",
	"hook input priority srcnat;", "hook input priority 100;",
)

// sortBlocks orders the chains, maps and sets of a listed table: nft lists them
// in the order in which they were made.
func sortBlocks(table string) string {
	head, rest, _ := strings.Cut(table, "\n")
	blocks := strings.Split(strings.TrimSuffix(rest, "\n}\n"), "\n\n")
	slices.SortFunc(blocks, func(a, b string) int {
		a, _, _ = strings.Cut(a, " {")
		b, _, _ = strings.Cut(b, " {")
		return cmp.Compare(a, b)
	})
	return head + "\n" + strings.Join(blocks, "\n\n") + "\n}\n"
}
