package node

import "testing"

func TestLatePacketsAreInvalidBefore61(t *testing.T) {
	for release, want := range map[string]bool{
		"5.10.0-28-amd64": true, "5.15.0-91-generic": true, "6.0.19": true, "4.18.0-513.el8.x86_64": true,
		"6.1.0-18-amd64": false, "6.18.44": false, "10.0": false, "": false, "unknown": false,
	} {
		if got := before(release, 6, 1); got != want {
			t.Errorf("%q: got %v", release, got)
		}
	}
}

func TestKernelsBefore513AreTooOld(t *testing.T) {
	for release, want := range map[string]bool{
		"5.10.0-28-amd64": true, "5.12.19": true, "4.18.0-513.el8.x86_64": true,
		"5.13.0": false, "5.15.0-91-generic": false, "6.1.0-18-amd64": false, "10.0": false, "unknown": false,
	} {
		if got := before(release, 5, 13); got != want {
			t.Errorf("%q: got %v", release, got)
		}
	}
}
