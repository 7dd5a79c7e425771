package crash

import (
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"
)

const (
	// neighbours is how many programs want all of a processor each.
	neighbours = 4
	// bound is how long a change may take beside them; without them it is 70 ms.
	bound = 5 * time.Second
	// followed is how many changes are timed.
	followed = 12
)

// unprotected is the flag by which tables are as on kernels that cannot have them
// belong to somebody.
const unprotected = "--protect-tables=false"

// TestBesideBusyNeighboursTheProxyFollowsAndIsKilledAsWell does on a machine
// without a processor to spare what the other tests do, and with tables that do not
// belong to it.
func TestBesideBusyNeighboursTheProxyFollowsAndIsKilledAsWell(t *testing.T) {
	s := newStage(t, 12, unprotected)
	d := s.start(t)
	s.settles(t)
	for range neighbours {
		s.busy(t)
	}
	load := s.ask(t)
	var took []time.Duration
	for range followed {
		start := time.Now()
		d.After(s.write)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("from a change to the kernel: half within %s, all within %s",
		took[followed/2].Round(time.Millisecond), took[followed-1].Round(time.Millisecond))
	if took[followed-1] > bound {
		t.Errorf("a change took %s, want at most %s", took[followed-1], bound)
	}
	s.settles(t)
	d.Kill()
	s.killing(t, max(*kills/12, len(aims)))
	load.Stop(t, *kills)
}

// busy runs a program that never rests, until the test ends.
func (s *stage) busy(t *testing.T) {
	t.Helper()
	c := s.Outside.Command(t.Context(), "sh", "-c", "while :; do :; done")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		if exit := (*exec.ExitError)(nil); !errors.As(c.Wait(), &exit) {
			t.Error("a neighbour ended by itself")
		}
	})
}
