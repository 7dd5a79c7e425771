package buildversion

import (
	"runtime/debug"
	"testing"
)

func TestModuleVersion(t *testing.T) {
	const commit = "v0.0.0-20261128162601-e6320289ffca+dirty"
	for version, want := range map[string]string{commit: commit, "": Unknown, "(devel)": Unknown} {
		if got := ofModule(debug.Module{Version: version}); got != want {
			t.Errorf("version %q of the module: %q, want %q", version, got, want)
		}
	}
}

func TestLinkedVersionWins(t *testing.T) {
	if got := Of("v1.2.3"); got != "v1.2.3" {
		t.Errorf("v1.2.3 set by the linker: %q", got)
	}
}
