package crash

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
)

// aim is a way to choose the moment at which the proxy is killed.
type aim struct {
	says string
	// running tells that the change comes while the proxy is up; else it comes
	// before the start.
	running bool
	// wait returns when the moment has come.
	wait func(*life)
}

// longestChange is how long after a change it is still being taken in: folders must
// be quiet for 50 ms, then they are read.
const longestChange = 80 * time.Millisecond

// aims are drawn from evenly: by the clock all steps are hit, by the length of
// time they take; the others look for the shortest ones.
var aims = []aim{
	{"any time from the start on", false, func(l *life) { l.after(l.startup * 5 / 4) }},
	{"any time from the start on", false, func(l *life) { l.after(l.startup * 5 / 4) }},
	{"while the first batch is made and sent", false, func(l *life) { l.told("batch"); l.after(2 * time.Millisecond) }},
	{"as the first batch is taken", false, (*life).committed},
	{"any time from a change on", true, func(l *life) { l.after(longestChange) }},
	{"any time from a change on", true, func(l *life) { l.after(longestChange) }},
	{"while a batch is made and sent", true, func(l *life) { l.told("batch"); l.after(time.Millisecond) }},
	{"as a batch is taken", true, (*life).committed},
}

// life is one of the proxy's, from its start to its death.
type life struct {
	*testing.T
	*daemon.Daemon
	random  *rand.Rand
	kernel  reader
	startup time.Duration // that a start takes
	// What there was before the change: of the kernel, and in the log.
	generation    uint32
	batches, done int
}

// mark notes what there is before a change.
func (l *life) mark() {
	l.generation = l.kernel.generation(l.T)
	if l.Daemon != nil {
		l.batches, l.done = l.CountMessages("batch"), l.CountMessages("applied")
	}
}

// after lets some time go by, at most so much.
func (l *life) after(most time.Duration) { <-time.After(time.Duration(l.random.Int64N(int64(most)))) }

// told waits for a line of the log about what came after the mark.
func (l *life) told(message string) {
	l.until("it told of a "+message, func() bool {
		<-time.After(50 * time.Microsecond) // else this would take the processor away
		return l.CountMessages(message) > l.batches
	})
}

// committed waits until the kernel has taken something.
func (l *life) committed() {
	l.until("the kernel took a batch", func() bool { return l.kernel.generation(l.T) != l.generation })
}

// until looks without a pause: what it looks for is over soon.
func (l *life) until(what string, is func() bool) {
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			l.Fatalf("not after %s: %s", patience, what)
		}
	}
}

// step is how far a change had come.
func (l *life) step() string {
	taken := l.kernel.generation(l.T) != l.generation
	switch {
	case l.CountMessages("applied") > l.done:
		return "after the batch"
	case taken:
		return "taken by the kernel, and nobody knew"
	case l.CountMessages("batch") > l.batches:
		return "in the batch, which was not taken"
	}
	return "before the batch"
}

// kill lets the proxy live until the moment comes, and looks at what it leaves.
func (s *stage) kill(t *testing.T, startup time.Duration, a aim) (step string) {
	l := &life{T: t, kernel: s.kernel, random: s.random, startup: startup}
	if a.running {
		l.Daemon = s.start(t)
	}
	l.mark()
	for range 1 + s.random.IntN(2) {
		s.write()
	}
	if !a.running {
		l.Daemon = s.launch(t)
	}
	a.wait(l)
	l.Kill()
	s.whole(t)
	return l.step()
}

// killing kills the proxy n times while Services change and clients ask, and
// checks that all steps of a change were hit.
func (s *stage) killing(t *testing.T, n int) {
	t.Helper()
	start := time.Now()
	s.start(t).Kill()
	startup := time.Since(start)
	s.settles(t)
	steps := map[string]int{}
	for i := range n {
		a := aims[i%len(aims)]
		if !t.Run(fmt.Sprintf("%d %s", i, a.says), func(t *testing.T) { steps[s.kill(t, startup, a)]++ }) {
			break
		}
	}
	t.Logf("%d kills in %s, a start takes %s; what the kills came at: %v; %d versions written",
		n, time.Since(start).Round(time.Millisecond), startup.Round(time.Millisecond), steps, s.written)
	for _, step := range []string{"before the batch", "taken by the kernel, and nobody knew", "after the batch"} {
		if n >= 100 && steps[step] == 0 { // of few, chance may leave out one
			t.Errorf("no kill came %s", step)
		}
	}
}

// TestKilledAtAnyStepTheProxyLeavesAWholeState kills the proxy 200 times.
func TestKilledAtAnyStepTheProxyLeavesAWholeState(t *testing.T) {
	s := newStage(t, 20)
	d := s.start(t)
	s.settles(t)
	d.Kill()
	load := s.ask(t)
	s.killing(t, *kills)

	d = s.start(t)
	s.settles(t)
	d.After(func() { s.folder.Put("churning") })
	if diff := difference(s.without, s.meaning(t)); diff != "" {
		t.Errorf("the churning Services left something behind (-want +have):\n%s", diff)
	}
	load.Stop(t, 5**kills)
}
