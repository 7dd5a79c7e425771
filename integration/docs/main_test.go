package main

import (
	"os"
	"testing"
)

func TestTheREADMEShowsWhatTheGoldensSay(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(root + "/" + readme)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := fill(root, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if fresh != string(text) {
		t.Error("the listings in README.md are not those of the goldens; run make docs")
	}
}

func TestAListingWithoutAnEndIsAnError(t *testing.T) {
	if _, err := fill("../..", "text\n"+begin+"walk"+closing+"no end"); err == nil {
		t.Error("no error")
	}
}
