package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
