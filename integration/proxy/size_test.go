package proxy

import (
	"debug/elf"
	"testing"

	"kube-vmap/integration/daemon"
)

// TestTheLinkerMayLeaveOutUnusedMethods looks for what keeps it from that: a
// template calls methods by names that the linker cannot know, so that it leaves
// in all there are. With Kubernetes' clients, that is 27 MB of program.
func TestTheLinkerMayLeaveOutUnusedMethods(t *testing.T) {
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
