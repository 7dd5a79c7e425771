package proxy

import (
	"debug/elf"
	"testing"

	"kube-vmap/integration/daemon"
)

// TestLinkerCanDropUnusedMethods checks that no templates are linked in: they call
// methods by names that the linker cannot know, so that it keeps all methods. With
// Kubernetes' clients, these are 27 MB.
func TestLinkerCanDropUnusedMethods(t *testing.T) {
	file, err := elf.Open(daemon.Program(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == "text/template.(*state).evalField" || s.Name == "html/template.(*Template).Execute" {
			t.Errorf("%s is linked in", s.Name)
		}
	}
}
