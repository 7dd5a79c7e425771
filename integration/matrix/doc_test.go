package matrix

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheTestsThatTheCommentNamesExist reads the package's own comment.
func TestTheTestsThatTheCommentNamesExist(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	there := testsOfTheTree(t)
	names := regexp.MustCompile(`[a-z]+\.Test[A-Za-z_]+`).FindAllString(string(doc), -1)
	if len(names) == 0 {
		t.Error("the comment names no test")
	}
	for _, name := range names {
		if !there[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

// testsOfTheTree are all test functions, with their package.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	top := os.DirFS("../..")
	err := fs.WalkDir(top, ".", func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(top, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				all[strings.TrimSuffix(file.Name.Name, "_test")+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
