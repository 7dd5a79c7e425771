package integration

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module   = "kube-vmap/"
	maxLines = 400
	// thirdParty matches every import from outside the standard library and this
	// module.
	thirdParty = "<third party>"
)

// layers are the top-level folders in the order of imports: each may import those
// before it. Tests in integration may import all, and nothing imports integration.
var layers = []string{"model", "nft", "sync", "cmd", "deploy"}

// bans are forbidden imports. The order of the layers makes sure that no package
// imports them indirectly through another one. Rules that can be checked file by file
// are in the linter's configuration.
var bans = []struct {
	in, except string   // the tree that the ban is for, without one below it
	imports    []string // "a/..." means a and everything below
	tests      bool     // test files too
	reason     string
}{
	{
		in: "model", imports: []string{thirdParty}, tests: true,
		reason: "model needs only the standard library",
	},
	{
		in: "model", imports: []string{"context", "log/...", "net", "net/http/...", "os/...", "io/fs", "sync/...", "syscall"},
		reason: "model has no I/O, goroutines or logs",
	},
	{
		in: "nft", except: "nft/kernel", imports: []string{"context", "net", "net/http/...", "os/..."},
		reason: "the rule set is computed without I/O; only nft/kernel talks to the kernel",
	},
	{
		in: "nft", imports: []string{"k8s.io/...", "sigs.k8s.io/..."}, tests: true,
		reason: "nft does not know Kubernetes",
	},
	{
		in: "nft/kernel", imports: []string{"net", "os/exec"},
		reason: "the kernel is programmed over netlink, with net/netip addresses, never by another program",
	},
	{
		in: ".", except: "nft/kernel", imports: []string{"github.com/mdlayher/..."}, tests: true,
		reason: "only nft/kernel opens a netlink socket",
	},
	{
		in: "sync", imports: []string{"github.com/google/nftables/...", "github.com/vishvananda/...", "os/exec"},
		reason: "sync reaches the kernel through nft",
	},
	{
		in: "cmd", imports: []string{"github.com/google/nftables/...", "github.com/vishvananda/..."},
		reason: "cmd reaches the kernel through nft",
	},
	{in: "cmd", imports: []string{"os/exec"}, reason: "what has the node's privileges starts no programs"},
	{
		in: "cmd/inspect",
		imports: []string{
			module + "cmd/kube-vmap/serve/...", module + "cmd/kube-vmap/takeover/...",
		},
		reason: "the instruments do not need the daemon's parts, so another program can include them",
	},
}

// clock are the functions of package time that read the clock or wait. Durations are
// allowed.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

func TestImportsFollowTheLayers(t *testing.T) {
	for _, f := range sources(t) {
		layer, _, _ := strings.Cut(f.dir, "/")
		if layer == "integration" {
			continue
		}
		place := slices.Index(layers, layer)
		if place < 0 {
			t.Errorf("%s is in none of the layers %v", f.path, layers)
			continue
		}
		for _, imported := range f.imports() {
			path, ours := strings.CutPrefix(imported, module)
			if to, _, _ := strings.Cut(path, "/"); ours && !slices.Contains(layers[:place+1], to) {
				t.Errorf("%s imports %s: imports must go one way, %s", f.path, imported, strings.Join(layers, " <- "))
			}
		}
	}
}

func TestForbiddenImports(t *testing.T) {
	for _, f := range sources(t) {
		for _, ban := range bans {
			if !within(f.dir, ban.in) || ban.except != "" && within(f.dir, ban.except) || f.test && !ban.tests {
				continue
			}
			for _, imported := range f.imports() {
				if slices.ContainsFunc(ban.imports, func(pattern string) bool { return matches(pattern, imported) }) {
					t.Errorf("%s imports %s: %s", f.path, imported, ban.reason)
				}
			}
		}
	}
}

// portable are the packages that programs on other platforms include, such as the plugin
// of kubectl, which a release builds for each of them (deploy/image).
var portable = []string{
	"cmd/inspect/exit", "cmd/inspect/explain/answer", "cmd/inspect/findings",
	"cmd/inspect/get", "cmd/inspect/output", "cmd/inspect/page", "cmd/inspect/page/live", "cmd/inspect/schema", "cmd/inspect/nodestatus", "cmd/inspect/top",
	"model", "sync/cluster/selectors",
}

func TestPluginOfKubectlImportsPortablePackagesOnly(t *testing.T) {
	for _, f := range sources(t) {
		if !within(f.dir, "cmd/kubectl-vmap") || f.test {
			continue
		}
		for _, imported := range f.imports() {
			dir, ours := strings.CutPrefix(imported, module)
			if ours && !within(dir, "cmd/kubectl-vmap") && !slices.Contains(portable, dir) && !strings.HasSuffix(f.dir, "test") {
				t.Errorf("%s imports %s, which is not among the portable packages", f.path, imported)
			}
		}
	}
}

func TestPurePackagesDoNotReadTheClock(t *testing.T) {
	for _, f := range sources(t) {
		pure := within(f.dir, "model") || within(f.dir, "nft") && !within(f.dir, "nft/kernel")
		if !pure || f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(clock, sel.Sel.Name) {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
					t.Errorf("%s uses time.%s: the result must depend on the input only", f.path, sel.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestEveryPackageHasOneDocComment(t *testing.T) {
	comments := map[string]int{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		comments[f.dir] += 0
		if f.syntax.Doc.Text() != "" {
			comments[f.dir]++
		}
	}
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("%s has %d package comments, want 1", dir, n)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, f := range sources(t) {
		if !f.test && f.lines > maxLines {
			t.Errorf("%s has %d lines, more than %d", f.path, f.lines, maxLines)
		}
	}
}

func TestContributingNamesEveryMakeTarget(t *testing.T) {
	makefile, page := read(t, "Makefile"), read(t, "CONTRIBUTING.md")
	targets := regexp.MustCompile(`(?m)^([a-z0-9-]+):.*##`).FindAllSubmatch(makefile, -1)
	if len(targets) == 0 {
		t.Error("no target in the Makefile has a ## help text")
	}
	for _, target := range targets {
		if !regexp.MustCompile(`make ` + string(target[1]) + `\b`).Match(page) {
			t.Errorf("CONTRIBUTING.md does not mention `make %s`", target[1])
		}
	}
}

// source is one Go file of the tree.
type source struct {
	path, dir string // from the top of the tree
	test      bool
	lines     int
	syntax    *ast.File
}

// imports returns the import paths of the file.
func (s source) imports() []string {
	var paths []string
	for _, spec := range s.syntax.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic("integration: invalid import path: " + spec.Path.Value)
		}
		paths = append(paths, path)
	}
	return paths
}

// sources parses every Go file of the tree, regardless of build constraints.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := fs.WalkDir(os.DirFS(top), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_")
		if entry.IsDir() && path != "." && (hidden || entry.Name() == "testdata" || path == "bin") {
			return fs.SkipDir
		}
		if entry.IsDir() || hidden || filepath.Ext(path) != ".go" {
			return nil
		}
		text := read(t, path)
		syntax, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{
			path: path, dir: filepath.Dir(path), test: strings.HasSuffix(path, "_test.go"),
			lines: bytes.Count(text, []byte("\n")), syntax: syntax,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// top is the path of the top of the tree from this package.
const top = ".."

// read returns the content of a file of the tree.
func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// within reports whether dir is tree, or below it.
func within(dir, tree string) bool {
	return tree == "." || dir == tree || strings.HasPrefix(dir, tree+"/")
}

// matches reports whether an import path matches a pattern of bans.
func matches(pattern, path string) bool {
	if pattern == thirdParty {
		host, _, _ := strings.Cut(path, "/")
		return strings.Contains(host, ".")
	}
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return within(path, tree)
	}
	return path == pattern
}
