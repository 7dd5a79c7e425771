package truth

import "testing"

func TestDifferenceNamesLinesAndTheirBlock(t *testing.T) {
	const want = "table ip\na 1\nset x {Size:0}\n\t{1}\n\t{2}\nset y {Size:0}\n\t{1}\ntable ip6\na 1\n"
	for _, c := range []struct{ name, have, says string }{
		{"same", want, ""},
		{"element missing", "table ip\na 1\nset x {Size:0}\n\t{1}\n\t{2}\nset y {Size:0}\ntable ip6\na 1\n", "- ip set y: {1}"},
		{"line of one family changed", "table ip\na 1\nset x {Size:0}\n\t{1}\n\t{2}\nset y {Size:0}\n\t{1}\ntable ip6\na 2\n", "- ip6 a 1\n+ ip6 a 2"},
		{"line twice", "table ip\na 1\na 1\nset x {Size:0}\n\t{1}\n\t{2}\nset y {Size:0}\n\t{1}\ntable ip6\na 1\n", "+ ip a 1"},
		{"other order", "table ip\na 1\nset x {Size:0}\n\t{2}\n\t{1}\nset y {Size:0}\n\t{1}\ntable ip6\na 1\n", "the same lines in another order"},
		{"nothing there", "", "- table ip\n- ip a 1\n- ip set x {Size:0}\n- ip set x: {1}\n- ip set x: {2}\n- ip set y {Size:0}\n- ip set y: {1}\n- table ip6\n- ip6 a 1\n+  "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := difference(want, c.have); got != c.says {
				t.Errorf("%q, want %q", got, c.says)
			}
		})
	}
}
