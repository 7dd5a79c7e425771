package crash

import (
	"fmt"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
)

// firstKills returns how many first loads are interrupted.
func firstKills() int { return max(3, *kills/10) }

// TestKilledDuringFirstLoad kills the proxy while it first loads a node without our
// tables. Nothing or everything is installed.
func TestKilledDuringFirstLoad(t *testing.T) {
	s := newStage(t, 4)
	s.cleanUp(t)
	start := time.Now()
	s.start(t).Kill()
	startup := time.Since(start)
	first := []aim{aims[0], aims[2], aims[3]} // without what was installed before
	nothing, all := 0, 0
	for i := range firstKills() {
		a := first[i%len(first)]
		ok := t.Run(fmt.Sprintf("%d %s", i, a.name), func(t *testing.T) {
			s.cleanUp(t)
			s.write()
			l := &life{T: t, kernel: s.kernel, random: s.random, startup: startup}
			l.mark()
			l.Daemon = s.launch(t)
			a.wait(l)
			l.Kill()
			if have := s.kernel.read(t); have[0] == nil && have[1] == nil {
				nothing++
				return
			}
			s.found = s.written
			s.checkKernel(t)
			all++
		})
		if !ok {
			break
		}
	}
	t.Logf("a start takes %s; %d kills left nothing %d times, everything %d times", startup.Round(time.Millisecond), firstKills(), nothing, all)
	if firstKills() >= 10 && (nothing == 0 || all == 0) {
		t.Error("the kills were all too late, or all too early")
	}
}

func (s *stage) cleanUp(t *testing.T) {
	t.Helper()
	daemon.Run(t, s.Node.Host, "cleanup", "--force")
	if have := s.kernel.read(t); have[0] != nil || have[1] != nil {
		t.Fatal("cleanup left tables")
	}
}
