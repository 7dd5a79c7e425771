package integration

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logMethods are the methods of slog.Logger with the number of arguments before the keys.
var logMethods = map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "Log": 3, "With": 0}

// Log keys are an interface: people filter and alert on them. The table in
// docs/metrics.md is complete, and has no key that is not logged.
func TestLogKeysAreThoseOfTheDocument(t *testing.T) {
	_, section, found := strings.Cut(string(read(t, "docs/metrics.md")), "\n## Logs\n")
	if !found {
		t.Fatal("docs/metrics.md has no section Logs")
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(section, -1) {
		for _, key := range regexp.MustCompile("[a-z_]+").FindAllString(row[1], -1) {
			documented[key] = false
		}
	}
	for _, f := range sources(t) {
		room, _, _ := strings.Cut(f.dir, "/")
		if f.test || !slices.Contains([]string{"model", "nft", "sync", "cmd"}, room) {
			continue
		}
		for _, key := range logKeys(f.syntax) {
			if _, ok := documented[key]; !ok {
				t.Errorf("%s logs the key %q, which docs/metrics.md does not have", f.path, key)
			}
			documented[key] = true
		}
	}
	for key, used := range documented {
		if !used {
			t.Errorf("docs/metrics.md has the key %q, which is not logged", key)
		}
	}
}

// logKeys returns the keys in the file's calls of a logger.
func logKeys(file *ast.File) []string {
	var keys []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		first, ok := logMethods[selector.Sel.Name]
		if !ok || len(call.Args) < first+2 || first > 0 && !isString(call.Args[first-1]) {
			return true
		}
		for i := first; i+1 < len(call.Args); i += 2 {
			if !isString(call.Args[i]) {
				return true
			}
			key, err := strconv.Unquote(call.Args[i].(*ast.BasicLit).Value)
			if err != nil {
				panic("integration: parsed string that is none")
			}
			keys = append(keys, key)
		}
		return true
	})
	return keys
}

func isString(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && literal.Kind == token.STRING
}

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
