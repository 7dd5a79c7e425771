package integration

import (
	"go/ast"
	"strings"
	"testing"
)

// TestQueuesAreDocumented checks that docs/security.md names each file with a queue: a type
// with that word in its name, or a channel with room for more than one value.
func TestQueuesAreDocumented(t *testing.T) {
	_, section, _ := strings.Cut(string(read(t, "docs/security.md")), "\n## What tenants share\n")
	section, _, _ = strings.Cut(section, "\n## ")
	found := 0
	for _, f := range sources(t) {
		daemon := strings.HasPrefix(f.dir, "sync") || strings.HasPrefix(f.dir, "cmd/kube-vmap") || strings.HasPrefix(f.dir, "cmd/inspect/")
		if f.test || !daemon || strings.HasSuffix(f.dir, "test") || !hasQueue(f.syntax) {
			continue
		}
		found++
		if !strings.Contains(section, "`"+f.path+"`") {
			t.Errorf("%s has a queue, but docs/security.md does not say what bounds it", f.path)
		}
	}
	if found == 0 {
		t.Error("no queue found")
	}
}

func hasQueue(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			_, isStruct := n.Type.(*ast.StructType)
			found = found || isStruct && strings.HasSuffix(n.Name.Name, "Queue")
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "make" && len(n.Args) == 2 {
				_, isChannel := n.Args[0].(*ast.ChanType)
				size, isLiteral := n.Args[1].(*ast.BasicLit)
				found = found || isChannel && !(isLiteral && size.Value == "1")
			}
		}
		return true
	})
	return found
}
