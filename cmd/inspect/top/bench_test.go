package top

import "testing"

// manyBench is the number of Services in the largest clusters.
const manyBench = 45_000

// BenchmarkSheet measures building a sheet, in the background.
func BenchmarkSheet(b *testing.B) {
	one, two := document(0, crowd(manyBench, 1)...), document(1, crowd(manyBench, 2)...)
	before := newSheet(one, serviceRows, nil)
	for b.Loop() {
		newSheet(two, serviceRows, before)
	}
}

// large is a screen with a pending answer.
func large(b *testing.B) (*screenOf, answer) {
	one, two := document(0, crowd(manyBench, 1)...), document(1, crowd(manyBench, 2)...)
	s := newSheet(two, serviceRows, newSheet(one, serviceRows, nil))

	m := newScreen(b, &script{answers: []any{one}})
	m.size(200, 60)
	return m, answer{sheet: s}
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
