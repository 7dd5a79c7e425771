package crash

import (
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

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
