package answer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJSONIsStable reads an answer with all fields, which scripts and other versions know, and prints it.
func TestJSONIsStable(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "answer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var a Answer
	var got strings.Builder
	if err := json.Unmarshal(want, &a); err != nil {
		t.Fatal(err)
	}
	if err := a.Print(&got, "json"); err != nil || got.String() != string(want) {
		t.Errorf("%v, got %s", err, &got)
	}
}
