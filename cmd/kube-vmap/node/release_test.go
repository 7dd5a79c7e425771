package node

import "testing"

// TestReleasesAreCompared has those before which late packets are invalid, and which are too old.
func TestReleasesAreCompared(t *testing.T) {
	for release, want := range map[string][2]bool{
		"4.18.0-513.el8.x86_64": {true, true}, "5.10.0-28-amd64": {true, true}, "5.12.19": {true, true},
		"5.13.0": {false, true}, "5.15.0-91-generic": {false, true}, "6.0.19": {false, true},
		"6.1.0-18-amd64": {}, "6.18.44": {}, "10.0": {}, "": {}, "unknown": {},
	} {
		if got := [...]bool{before(release, 5, 13), before(release, 6, 1)}; got != want {
			t.Errorf("%q: got %v", release, got)
		}
	}
}
