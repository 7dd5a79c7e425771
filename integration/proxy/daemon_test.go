package proxy

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is the timeout for what must be answered: packets do not wait for
	// anything.
	answer = 5 * time.Second
	// silence is how long to wait for an answer that must not come.
	silence = 120 * time.Millisecond
)

// newScene creates a lab of three pods and one on another node, and a folder with the objects of
// the cluster.
func newScene(t *testing.T) (*lab.Lab, *daemon.Folder) {
	t.Helper()
	t.Parallel()
	l, _ := daemon.NewLab(t, 3, 1)
	return l, daemon.NewFolder(t, l)
}

// start runs kube-vmap on the folder until it is ready. Warnings are allowed.
func start(t *testing.T, l *lab.Lab, f *daemon.Folder, flags ...string) *daemon.Daemon {
	t.Helper()
	d := daemon.Launch{Node: l.Node, Folder: f, Flags: flags, Problems: true}.Start(t)
	d.AwaitMessage("ready")
	return d
}

// generation returns the number of changes of nf_tables on node-1.
func generation(t *testing.T, l *lab.Lab) uint32 {
	t.Helper()
	g, err := labtest.Kernel(t, l.Node.Host).Generation()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// everyone returns one client of each kind: a pod, the node, and the host outside.
func everyone(l *lab.Lab) []*lab.Host { return []*lab.Host{l.Pods[2].Host, l.Node.Host, l.Outside} }

// enough questions make it practically impossible that one of a few endpoints is never
// picked. few are asked in any case.
const (
	enough = 200
	few    = 4
)

// only asks over each transport and from all clients until all of these hosts have answered,
// and checks that no other host did.
func only(t *testing.T, l *lab.Lab, s daemon.Service, by ...string) {
	t.Helper()
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		to := s.ClusterAddrPort(w.Family)
		for _, from := range everyone(l) {
			missing := slices.Clone(by)
			for n := 0; n < enough && (len(missing) > 0 || n < few); n++ {
				a, err := from.AskFresh(w.Protocol, netip.Addr{}, to, answer)
				if err != nil || a.Outcome != lab.Answered || !slices.Contains(by, a.By) {
					t.Fatalf("%s asks %s: %s, %v, want an answer by %s", from, to, a, err, strings.Join(by, " or "))
				}
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == a.By })
			}
			if len(missing) > 0 {
				t.Errorf("%s asks %s %d times: no answer by %s", from, to, enough, strings.Join(missing, " and "))
			}
		}
	})
}

// counters are the kernel's counters of a host, by name: those of TCP (netstat), and those of
// connection tracking.
type counters map[string]int

func count(t *testing.T, h *lab.Host) counters {
	t.Helper()
	c := counters{}
	err := h.Do(func() error {
		tracking := c.read("/proc/thread-self/net/stat/nf_conntrack", 16)
		if os.IsNotExist(tracking) {
			tracking = nil // nothing is tracked in this namespace
		}
		return errors.Join(c.read("/proc/thread-self/net/netstat", 10), tracking)
	})
	if err != nil {
		t.Fatalf("read counters of %s: %v", h.Name, err)
	}
	return c
}

// since returns by how much a counter has grown; zero if this kernel does not have it.
func (c counters) since(before counters, name string) int { return c[name] - before[name] }

// read reads tables: a line of names, and lines of values that are added up. The first column of
// netstat is the name of its table.
func (c counters) read(path string, base int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if _, err := strconv.ParseInt(fields[len(fields)-1], base, 64); err != nil {
			names = fields
			continue
		}
		for i := range min(len(names), len(fields)) {
			n, _ := strconv.ParseInt(fields[i], base, 64)
			c[names[i]] += int(n)
		}
	}
	return nil
}
