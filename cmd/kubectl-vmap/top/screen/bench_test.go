package screen

import (
	"testing"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/top"
	"kube-vmap/cmd/inspect/top/toptest"
)

// manyBench is the number of Services in the largest clusters.
const manyBench = 45_000

// large is a screen with a pending answer.
func large(b *testing.B) (*screenOf, answer) {
	one, two := toptest.Document(0, toptest.Crowd(manyBench, 1)...), toptest.Document(1, toptest.Crowd(manyBench, 2)...)
	m := newScreen(b, &toptest.Script{Answers: []any{one}})
	m.size(200, 60)
	return m, answer{sheet: m.overview.SheetOf(top.Answer{Documents: []*status.Document{two}}, m.overview.Sheet)}
}

// BenchmarkAnswer measures how long an answer blocks keys.
func BenchmarkAnswer(b *testing.B) {
	m, a := large(b)
	m.overview.move(100)
	for b.Loop() {
		m.Update(a)
		_ = m.View()
	}
}

// BenchmarkKey measures a key that moves the selection.
func BenchmarkKey(b *testing.B) {
	m, _ := large(b)
	for b.Loop() {
		m.Update(keyOf("down"))
		_ = m.View()
	}
}

// BenchmarkSearch measures a key of a search.
func BenchmarkSearch(b *testing.B) {
	m, _ := large(b)
	for b.Loop() {
		m.overview.find("service-0001")
		_ = m.View()
	}
}
