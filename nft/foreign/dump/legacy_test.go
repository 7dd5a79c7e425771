package dump

import (
	"encoding/binary"
	"slices"
	"testing"
)

// FuzzLegacy decodes any bytes as the entries of a table.
func FuzzLegacy(f *testing.F) {
	f.Add(legacyEntry(legacyFamilies[0].target, "ERROR", []byte("MINE")...))
	f.Fuzz(func(_ *testing.T, b []byte) {
		for _, l := range legacyFamilies {
			_ = (&Table{}).decodeLegacy(b, l.target)
		}
	})
}

func legacyEntry(targetOffset int, target string, data ...byte) []byte {
	const header = 4 // of the offsets, after the conditions
	b := make([]byte, targetOffset+header, 256)
	binary.NativeEndian.PutUint16(b[targetOffset:], uint16(len(b)))
	b = append(b, make([]byte, 32)...)
	copy(b[targetOffset+header+2:], target)
	b = append(b, append(data, 0, 0, 0, 0)...)
	binary.NativeEndian.PutUint16(b[targetOffset+2:], uint16(len(b)))
	return b
}

func TestLegacyChainsAreNamed(t *testing.T) {
	verdict := func(v int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(v)) }
	for _, l := range legacyFamilies {
		accept, end := legacyEntry(l.target, "", verdict(-2)...), legacyEntry(l.target, "ERROR", []byte("ERROR")...)
		mine, back := legacyEntry(l.target, "ERROR", []byte("MINE")...), legacyEntry(l.target, "", verdict(-5)...)
		for _, tc := range []struct {
			entries [][]byte
			chains  int
			inert   bool
		}{
			{[][]byte{accept, accept, end}, 0, true},
			{[][]byte{accept, mine, back, end}, 1, true},
			{[][]byte{legacyEntry(l.target, "", verdict(-1)...), end}, 0, false},        // policy drop
			{[][]byte{legacyEntry(l.target, "", verdict(152)...), mine, end}, 1, false}, // a jump
			{[][]byte{accept, mine, legacyEntry(l.target, "DNAT"), back, end}, 1, false},
		} {
			var got Table
			err := got.decodeLegacy(slices.Concat(tc.entries...), l.target)
			if err != nil || len(got.Chains) != tc.chains || tc.chains == 1 && got.Chains[0].Name != "MINE" || got.Inert != tc.inert {
				t.Errorf("%+v: %+v, %v", tc, got, err)
			}
		}
		if err := (&Table{}).decodeLegacy(accept[:len(accept)-1], l.target); err == nil {
			t.Error("no error for an entry that is cut")
		}
	}
}
