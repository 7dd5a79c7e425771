package main

import (
	"os"
	"testing"
)

func TestListingsEqualGoldens(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(root + "/" + page)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := fill(root, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if fresh != string(text) {
		t.Error("the listings in docs/design.md differ from the goldens; run make docs")
	}
}
