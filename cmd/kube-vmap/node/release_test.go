package node

import "testing"

func TestOldDataAreDistrustedBefore61(t *testing.T) {
	for release, want := range map[string]bool{
		"5.10.0-28-amd64": true, "5.15.0-91-generic": true, "6.0.19": true, "4.18.0-513.el8.x86_64": true,
		"6.1.0-18-amd64": false, "6.18.44": false, "10.0": false, "": false, "unknown": false,
	} {
		if got := before61(release); got != want {
			t.Errorf("%q: got %v", release, got)
		}
	}
}
