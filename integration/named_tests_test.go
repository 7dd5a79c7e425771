package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedTestsExist checks that the tests which documents name exist, and that
// docs/security.md names all tests of integration/security.
func TestDocumentedTestsExist(t *testing.T) {
	const (
		security   = "docs/security.md"
		folderTest = "`([a-z0-9/-]+\\.(?:Test|Fuzz)[A-Za-z0-9]+)`"
	)
	byFolder, byPackage := testsByFolder(t), map[string]bool{}
	eachTest(t, func(f source, name string) {
		byPackage[strings.TrimSuffix(f.syntax.Name.Name, "_test")+"."+name] = true
	})
	named := checkNames(t, security, folderTest, byFolder)
	checkNames(t, "docs/evidence.md", folderTest, byFolder)
	checkNames(t, "integration/matrix/doc.go", `([a-z]+\.Test[A-Za-z_]+)`, byPackage)
	for name := range byFolder {
		if strings.HasPrefix(name, "integration/security.") && !named[name] {
			t.Errorf("%s does not name %s", security, name)
		}
	}
}

func eachTest(t *testing.T, fn func(f source, name string)) {
	t.Helper()
	for _, f := range sources(t) {
		for _, d := range f.syntax.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && f.test && d.Recv == nil && isTest(d.Name.Name) {
				fn(f, d.Name.Name)
			}
		}
	}
}

// testsByFolder returns the names of all tests, as in integration/matrix.TestClusterIPTable.
func testsByFolder(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	eachTest(t, func(f source, name string) { names[f.dir+"."+name] = true })
	return names
}

func checkNames(t *testing.T, document, pattern string, existing map[string]bool) map[string]bool {
	t.Helper()
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(read(t, document), -1) {
		named[string(m[1])] = true
	}
	if len(named) == 0 {
		t.Errorf("%s names no test", document)
	}
	for name := range named {
		if !existing[name] {
			t.Errorf("%s names %s, which does not exist", document, name)
		}
	}
	return named
}

// isTest reports whether go test runs a function.
func isTest(name string) bool {
	return name != "TestMain" && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz"))
}

// source is one Go file of the tree.
type source struct {
	path, dir string // from the top of the tree
	test      bool
	syntax    *ast.File
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
		syntax, err := parser.ParseFile(token.NewFileSet(), path, read(t, path), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{
			path: path, dir: filepath.Dir(path), test: strings.HasSuffix(path, "_test.go"), syntax: syntax,
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
