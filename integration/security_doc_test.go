package integration

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// TestTheTestsThatTheDocumentNamesExist holds that docs/security.md names tests that
// there are, by folder, and all of those that were made for it.
func TestTheTestsThatTheDocumentNamesExist(t *testing.T) {
	const document, own = "docs/security.md", "integration/security"
	there := map[string]bool{}
	for _, f := range sources(t) {
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil && isTest(fn.Name.Name) {
				there[f.dir+"."+fn.Name.Name] = true
			}
		}
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z0-9/-]+\\.(?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllSubmatch(read(t, document), -1) {
		named[string(m[1])] = true
	}
	if len(named) == 0 {
		t.Errorf("%s names no test", document)
	}
	for name := range named {
		if !there[name] {
			t.Errorf("%s names %s, which there is not", document, name)
		}
	}
	for name := range there {
		if strings.HasPrefix(name, own+".") && !named[name] {
			t.Errorf("%s does not name %s", document, name)
		}
	}
}

// isTest reports whether a function is one that go test runs.
func isTest(name string) bool {
	return name != "TestMain" && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz"))
}
