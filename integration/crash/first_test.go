package crash

import (
	"fmt"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
)

// firstKills is how many first loads are cut short, of so many kills.
func firstKills() int { return max(3, *kills/10) }

// TestKilledInItsFirstLoadTheProxyLeavesAllOrNothing starts from a node without
// our tables each time.
func TestKilledInItsFirstLoadTheProxyLeavesAllOrNothing(t *testing.T) {
	s := newStage(t, 4)
	start := time.Now()
	s.cleanUp(t)
	cleaning := time.Since(start)
	start = time.Now()
	s.start(t).Kill()
	startup := time.Since(start)
	aims := []aim{
		{says: "any time from the start on", wait: func(l *life) { l.after(l.startup * 5 / 4) }},
		{says: "while the batch is made and sent", wait: func(l *life) { l.told("batch"); l.after(l.startup / 3) }},
		{says: "as the batch is taken", wait: (*life).committed},
	}
	nothing, all := 0, 0
	for i := range firstKills() {
		a := aims[i%len(aims)]
		ok := t.Run(fmt.Sprintf("%d %s", i, a.says), func(t *testing.T) {
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
			s.whole(t)
			all++
		})
		if !ok {
			break
		}
	}
	t.Logf("a start takes %s, to clean up %s; what %d kills left: nothing %d times, all %d times", startup.Round(time.Millisecond),
		cleaning.Round(time.Millisecond), firstKills(), nothing, all)
	if firstKills() >= 10 && (nothing == 0 || all == 0) {
		t.Error("the kills were all too late, or all too early")
	}
}

// cleanUp lets the program remove its tables.
func (s *stage) cleanUp(t *testing.T) {
	t.Helper()
	<-daemon.Launch{Node: s.Node, Folder: s.folder, Flags: []string{"--cleanup"}}.Start(t).Done()
	if have := s.kernel.read(t); have[0] != nil || have[1] != nil {
		t.Fatal("the program left tables when it was to remove them")
	}
}
