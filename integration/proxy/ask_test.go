package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
)

// ask asks once.
func ask(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort, timeout time.Duration) lab.Answer {
	t.Helper()
	a, err := from.AskFresh(w.Protocol, netip.Addr{}, to, timeout)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// enough questions make it practically impossible that one of a few endpoints is never
// picked. few are asked in any case.
const (
	enough = 200
	few    = 4
)

// answers asks until all of the given hosts have answered, checks that no other host
// did, and calls check with each answer.
func answers(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort, by []string, check func(lab.Answer)) {
	t.Helper()
	missing := slices.Clone(by)
	for n := 0; n < enough && (len(missing) > 0 || n < few); n++ {
		a := ask(t, from, w, to, answer)
		if a.Outcome != lab.Answered || !slices.Contains(by, a.By) {
			t.Fatalf("%s asks %s: %s, want an answer by %s", from, to, a, strings.Join(by, " or "))
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == a.By })
		if check != nil {
			check(a)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%s asks %s %d times: no answer by %s", from, to, enough, strings.Join(missing, " and "))
	}
}

// refused checks that the port is refused each time, and immediately: on a busy machine,
// the fastest of several refusals counts.
func refused(t *testing.T, from *lab.Host, w daemon.Transport, to netip.AddrPort) {
	t.Helper()
	fastest := answer
	for range 3 {
		a := ask(t, from, w, to, answer)
		if a.Outcome != lab.Refused {
			t.Fatalf("%s asks %s: %s, want refused", from, to, a)
		}
		if fastest = min(fastest, a.Took); fastest < soon {
			break
		}
	}
	if fastest >= soon {
		t.Errorf("%s asks %s: refused only after %s", from, to, fastest)
	}
}

// silent checks that no client gets an answer. All ask concurrently.
func silent(t *testing.T, all []*lab.Host, w daemon.Transport, to netip.AddrPort) {
	t.Helper()
	var group errgroup.Group
	for _, from := range all {
		group.Go(func() error {
			a, err := from.AskFresh(w.Protocol, netip.Addr{}, to, silence)
			if err == nil && a.Outcome != lab.TimedOut {
				err = fmt.Errorf("%s asks %s: %s, want silence", from, to, a)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
