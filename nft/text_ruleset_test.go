package nft

import (
	"strings"
	"testing"
)

// longest remembers the longest piece that was written.
type longest struct {
	strings.Builder
	piece int
}

func (l *longest) Write(p []byte) (int, error) {
	l.piece = max(l.piece, len(p))
	return l.Builder.Write(p)
}

// TestRenderWritesInPieces, since a set of a big cluster has tens of megabytes.
func TestRenderWritesInPieces(t *testing.T) {
	rules, _ := Adopt(sampleConfig, Tables{}, sample(2000))
	var out longest
	if err := rules.Render(&out); err != nil {
		t.Fatal(err)
	}
	if out.Len() < 1<<20 || out.piece > 16<<10 {
		t.Errorf("of %d bytes, %d are written in one piece", out.Len(), out.piece)
	}
}
