package nft

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSchemaIsDocumented compares the tables of chains and sets in doc.go with the schema. What
// follows a row there, who fills it or what it does, is text.
func TestSchemaIsDocumented(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for k := range chainKinds {
		name, hook := chainSchema[k].name, "-"
		if h := hooks[k]; h != nil {
			hook = fmt.Sprintf("%s %s %s", h.chainType, h.name, h.priorityName)
		}
		if k == ChainBalance {
			name = methodSchema[pickRandom].name
		}
		if k >= baseChains && !k.single() {
			name += "-N"
		}
		rows = append(rows, fmt.Sprintf("%-24s %s", name, hook))
	}
	words := [fields]string{
		FieldSource: "saddr", FieldDestination: "daddr", FieldProtocol: "proto", FieldPort: "dport", FieldPick: "pick",
		FieldClient: "client", FieldOriginalDestination: "original daddr", FieldOriginalPort: "original dport",
		FieldNumber: "number", FieldOriginalSource: "original saddr", FieldOriginalSourcePort: "original sport",
	}
	content := map[Content]string{
		ContentVerdict: " : verdict", ContentEndpoint: " : address . port", ContentAddress: " : address",
		ContentPort: " : port", ContentNumber: " : number",
	}
	for k := range setKinds {
		name := setSchema[k].name
		if k.slotted() {
			name += "-N"
		}
		var key []string
		for _, f := range setSchema[k].layout.Key {
			key = append(key, words[f])
		}
		rows = append(rows, fmt.Sprintf("%-24s %s", name, strings.Join(key, " . ")+content[setSchema[k].layout.Content]))
	}
	rest := string(text)
	for _, row := range rows {
		_, after, found := strings.Cut(rest, "//\t"+row+"  ")
		if !found {
			t.Errorf("doc.go has no row, or not here:\n//\t%s  ...", row)
			continue
		}
		if line, _, _ := strings.Cut(after, "\n"); strings.TrimSpace(line) == "" {
			t.Errorf("%s: nothing says what it is for", row)
		}
		rest = after
	}
}
