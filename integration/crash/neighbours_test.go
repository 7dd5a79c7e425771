package crash

import (
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"
)

const (
	// neighbours is how many programs use a whole processor each.
	neighbours = 4
	// bound is how long a change may take meanwhile; without neighbours it takes 70 ms.
	bound = 5 * time.Second
	// followed is how many changes are measured.
	followed = 12
)

// unprotected makes tables have no owner, as on older kernels.
const unprotected = "--protect-tables=false"

// TestBusyMachine tests changes and kills on a machine with all processors busy, with
// tables without an owner.
func TestBusyMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("of the long suite")
	}
	s := newStage(t, 12, unprotected)
	d := s.start(t)
	s.awaitVersion(t)
	for range neighbours {
		s.busy(t)
	}
	load := s.startClients(t)
	var took []time.Duration
	for range followed {
		start := time.Now()
		d.After(s.write)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("time from a change to its commit: median %s, maximum %s",
		took[followed/2].Round(time.Millisecond), took[followed-1].Round(time.Millisecond))
	if took[followed-1] > bound {
		t.Errorf("a change took %s, want at most %s", took[followed-1], bound)
	}
	s.awaitVersion(t)
	d.Kill()
	s.killRepeatedly(t, max(*kills/12, len(aims)))
	load.Stop(t, *kills)
}

// busy runs a program that uses a whole processor until the test ends.
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
			t.Error("a neighbour ended on its own")
		}
	})
}
