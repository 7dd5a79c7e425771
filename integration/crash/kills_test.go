package crash

import (
	"fmt"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// aim chooses the moment at which the proxy is killed.
type aim struct {
	name string
	// running reports that the change comes while the proxy runs, not before its start.
	running bool
	// wait waits for the moment.
	wait func(*life)
}

// longestChange is how long the proxy needs for a change: folders must not change for 50
// ms, then they are read.
const longestChange = 80 * time.Millisecond

// aims are used in turn. Random times hit all steps in proportion to their length; the
// others aim at the shortest ones.
var aims = []aim{
	{"any time after the start", false, func(l *life) { l.after(l.startup * 5 / 4) }},
	{"any time after the start", false, func(l *life) { l.after(l.startup * 5 / 4) }},
	{"while the first batch is planned and sent", false, func(l *life) { l.logged("batch"); l.after(2 * time.Millisecond) }},
	{"when the first batch is committed", false, (*life).committed},
	{"any time after a change", true, func(l *life) { l.after(longestChange) }},
	{"any time after a change", true, func(l *life) { l.after(longestChange) }},
	{"while a batch is planned and sent", true, func(l *life) { l.logged("batch"); l.after(time.Millisecond) }},
	{"when a batch is committed", true, (*life).committed},
}

// life is one run of the proxy, from its start until it is killed.
type life struct {
	*testing.T
	*daemon.Daemon
	random  daemon.Random
	kernel  reader
	startup time.Duration // of a start
	// The kernel's generation and counts of log messages before the change.
	generation    uint32
	batches, done int
}

// mark records the state before a change.
func (l *life) mark() {
	l.generation = l.kernel.generation(l.T)
	if l.Daemon != nil {
		l.batches, l.done = l.CountMessages("batch"), l.CountMessages("applied")
	}
}

// after waits for a random time, at most so long.
func (l *life) after(limit time.Duration) { <-time.After(time.Duration(l.random.Int64N(int64(limit)))) }

// logged waits for a log message after the mark.
func (l *life) logged(message string) {
	l.until("logged "+message, func() bool {
		<-time.After(50 * time.Microsecond) // leave the processor to the proxy
		return l.CountMessages(message) > l.batches
	})
}

// committed waits for a commit in the kernel.
func (l *life) committed() {
	l.until("a batch was committed", func() bool { return l.kernel.generation(l.T) != l.generation })
}

// until polls without a pause, because the moment is short.
func (l *life) until(what string, happened func() bool) {
	for deadline := time.Now().Add(patience); !happened(); {
		if time.Now().After(deadline) {
			l.Fatalf("not after %s: %s", patience, what)
		}
	}
}

// step returns how far a change had come.
func (l *life) step() string {
	committed := l.kernel.generation(l.T) != l.generation
	switch {
	case l.CountMessages("applied") > l.done:
		return "after the batch"
	case committed:
		return "committed, but not logged"
	case l.CountMessages("batch") > l.batches:
		return "planned, but not committed"
	}
	return "before the batch"
}

// kill kills the proxy at the chosen moment, and checks what it leaves.
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
	s.checkKernel(t)
	return l.step()
}

// TestKilledAtAnyMoment kills the proxy again and again while Services change. A consistent
// version remains each time. All steps of a change are hit.
func TestKilledAtAnyMoment(t *testing.T) {
	s := newStage(t, 20)
	start, n := time.Now(), *kills
	d := s.start(t)
	startup := time.Since(start)
	s.awaitVersion(t)
	d.Kill()
	load, stopHeld := s.startClients(t), s.startHeldClients(t)
	steps := map[string]int{}
	for i := range n {
		a := aims[i%len(aims)]
		if !t.Run(fmt.Sprintf("%d %s", i, a.name), func(t *testing.T) { steps[s.kill(t, startup, a)]++ }) {
			break
		}
	}
	t.Logf("%d kills in %s, a start takes %s; steps: %v; %d versions written",
		n, time.Since(start).Round(time.Millisecond), startup.Round(time.Millisecond), steps, s.written)
	for _, step := range []string{"before the batch", "committed, but not logged", "after the batch"} {
		if n >= 100 && steps[step] == 0 { // fewer kills may miss one by chance
			t.Errorf("no kill came %s", step)
		}
	}
	d = s.start(t)
	s.awaitVersion(t)
	stopHeld()
	d.After(func() { s.folder.Put("churning") })
	if diff := difference(s.without, s.tables(t)); diff != "" {
		t.Errorf("the churning Services left something behind (-want +have):\n%s", diff)
	}
	load.Stop(t, 5*n)
}

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

// TestRestartWritesNothing ends the proxy in two ways and restarts it, while clients connect: with
// tables owned by the proxy where the kernel supports that, and as on older kernels.
func TestRestartWritesNothing(t *testing.T) {
	for name, flags := range map[string][]string{"owned": nil, "unprotected": {"--protect-tables=false"}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, flags...)
			d := s.start(t)
			before, generation := s.tables(t), s.kernel.generation(t)
			load := s.startClients(t)
			for by, end := range map[string]func(*daemon.Daemon){"SIGTERM": (*daemon.Daemon).Stop, "SIGKILL": (*daemon.Daemon).Kill} {
				end(d)
				d = s.start(t)
				now := s.kernel.generation(t)
				if now != generation+s.ownershipCommits(t) {
					t.Errorf("restart after %s: generation %d became %d: something was written", by, generation, now)
				}
				generation = now
			}
			if diff := difference(before, s.tables(t)); diff != "" {
				t.Errorf("the restarts changed something (-before +after):\n%s", diff)
			}
			load.Stop(t, 10)
		})
	}
}

// ownershipCommits returns how many transactions a proxy needs to take ownership of the
// tables of its predecessor: one if tables have an owner.
func (s *stage) ownershipCommits(t *testing.T) uint32 {
	t.Helper()
	if have := s.kernel.read(t); have[model.IPv4].Protected {
		return 1
	}
	return 0
}
