package nft

import (
	"os"
	"strings"
	"testing"
)

// TestSharedObjectsAreDocumented checks that docs/security.md says, for each kind of set,
// chain and counter, why a tenant cannot use it up.
func TestSharedObjectsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## What tenants share\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/security.md has no section of what tenants share")
	}
	var names []string
	for c := range Counters {
		names = append(names, c.String())
	}
	for _, kind := range setSchema {
		names = append(names, kind.name)
	}
	for _, kind := range chainSchema {
		if kind.name != "" {
			names = append(names, kind.name)
		}
	}
	for _, m := range methodSchema {
		names = append(names, m.name)
	}
	for _, name := range names {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/security.md does not say what bounds %s", name)
		}
	}
}
