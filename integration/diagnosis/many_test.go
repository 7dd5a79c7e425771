package diagnosis

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
)

// TestTenThousandServicesTakeLittleMemory bounds what get makes the daemon allocate.
func TestTenThousandServicesTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("of the long suite")
	}
	const many = 10_000
	s := newScene(t, 2, 0)
	services := make([]daemon.Service, many)
	for i := range services {
		services[i] = daemon.Service{Name: fmt.Sprint("web-", i), Number: i + 1, Endpoints: s.servers}
	}
	s.folder.Put("many", services...)
	pid := s.startWithPID()
	process := fmt.Sprint("/proc/", pid)
	measure := func(what string, args ...string) {
		t.Helper()
		if err := os.WriteFile(process+"/clear_refs", []byte("5"), 0o200); err != nil { // resets the peak
			t.Fatal(err)
		}
		before := memory(t, process, "VmRSS")
		out := s.prints(append([]string{"get"}, args...)...)
		grown := memory(t, process, "VmHWM") - before
		t.Logf("%s: %d KiB printed, the daemon has %d MiB and took %d MiB more", what,
			len(out)>>10, before>>10, grown>>10)
		if grown > 400<<10 {
			t.Errorf("%s takes %d MiB", what, grown>>10)
		}
	}
	measure("one Service", "svc", "web-7")
	measure("all Services", "svc", "-A")
	measure("all Services again", "svc", "-A")
	measure("all endpoints as JSON", "ep", "-A", "-o", "json")
	measure("one Service after them", "svc", "web-7")
	s.prints("get", "svc", "-A", "--kernel")
}

// memory returns a number of a process's memory, in KiB.
func memory(t *testing.T, process, what string) int {
	t.Helper()
	text, err := os.ReadFile(process + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), what+":")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
