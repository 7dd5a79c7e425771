package clock

import (
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answerTimeout is how long an answer may take on a busy machine.
	answerTimeout = 5 * time.Second
	// affinity outlasts the test.
	affinity = 2 * time.Hour
	// idlePeriod is how long the idle proxy is observed, and maxIdleCPU the processor time
	// it may use meanwhile.
	idlePeriod = 5 * time.Second
	maxIdleCPU = idlePeriod / 50
)

var jumps = []struct {
	name string
	by   time.Duration
}{
	{"a year forwards", 365 * 24 * time.Hour},
	{"a day backwards", -24 * time.Hour},
}

// TestClockJumps lets the clock jump while the proxy is idle, and then changes Services.
func TestClockJumps(t *testing.T) {
	requireOwnMachine(t)
	for _, j := range jumps {
		t.Run(j.name, func(t *testing.T) {
			s := newScene(t)
			had := s.answeredBy(s.sticky)
			jump(t, j.by)

			used := cpuTime(t, s.proxy.PID())
			for began := time.Now(); time.Since(began) < idlePeriod; <-time.After(50 * time.Millisecond) {
				s.checkHealth()
			}
			if used = cpuTime(t, s.proxy.PID()) - used; used > maxIdleCPU {
				t.Errorf("the idle proxy used %s of processor time in %s", used, idlePeriod)
			}
			for range 3 {
				s.changeService()
				s.checkHealth()
				if now := s.answeredBy(s.sticky); now != had {
					t.Errorf("clients were answered by %v, and now by %v", had, now)
				}
			}
		})
	}
}

// scene is a proxy with a Service with session affinity, and one that changes.
type scene struct {
	t              *testing.T
	lab            *lab.Lab
	folder         *daemon.Folder
	proxy          *daemon.Daemon
	sticky, moving daemon.Service
}

func newScene(t *testing.T) *scene {
	t.Helper()
	l, servers := daemon.NewLab(t, 4, 0)
	s := &scene{t: t, lab: l, folder: daemon.NewFolder(t, l)}
	s.sticky = daemon.Service{Name: "sticky", Number: 1, Endpoints: servers[:3], Affinity: affinity}
	s.moving = daemon.Service{Name: "moving", Number: 2, Endpoints: servers[:1]}
	s.put()
	s.proxy = daemon.Start(t, l.Node, s.folder)
	return s
}

func (s *scene) put() { s.folder.Put("services", s.sticky, s.moving) }

// ask sends a request to a Service from the pod that is no endpoint, and returns who answers.
func (s *scene) ask(w daemon.Transport, of daemon.Service) string {
	s.t.Helper()
	a, err := s.lab.Pods[3].Ask(w.Protocol, of.AddrPort(s.lab.Node, w.Family, model.KindClusterIP, 0), answerTimeout)
	if err != nil || a.Outcome != lab.Answered {
		s.t.Fatalf("%s, %s: %s, %v", of.Name, w, a, err)
	}
	return a.By
}

// answers are the servers that answered over each transport.
type answers [6]string

// answeredBy returns who answers over each transport, and checks that it stays the same.
func (s *scene) answeredBy(of daemon.Service) (by answers) {
	s.t.Helper()
	for i, w := range daemon.Transports() {
		by[i] = s.ask(w, of)
		for range 10 {
			if again := s.ask(w, of); again != by[i] {
				s.t.Errorf("%s, %s: answered by %s and by %s", of.Name, w, by[i], again)
			}
		}
	}
	return by
}

// changeService gives the Service moving another endpoint, and checks that this answers.
func (s *scene) changeService() {
	s.t.Helper()
	to := s.lab.Pods[0].Host
	if s.moving.Endpoints[0] == to {
		to = s.lab.Pods[1].Host
	}
	s.moving.Endpoints = []*lab.Host{to}
	s.proxy.After(s.put)
	for _, w := range daemon.Transports() {
		if by := s.ask(w, s.moving); by != to.Name {
			s.t.Errorf("%s: answered by %s, want %s", w, by, to.Name)
		}
	}
}

func (s *scene) checkHealth() {
	s.t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: s.lab.Node.DialContext, DisableKeepAlives: true}, Timeout: answerTimeout}
	response, err := client.Get("http://127.0.0.1:10256/healthz")
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		s.t.Errorf("healthz: %s", response.Status)
	}
}

// ownMachine is the environment variable which, if not empty, confirms that nothing else
// uses this machine.
const ownMachine = "KUBE_VMAP_OWN_MACHINE"

// requireOwnMachine skips a test that affects the whole machine.
func requireOwnMachine(t *testing.T) {
	t.Helper()
	if os.Getenv(ownMachine) == "" {
		t.Skip("SKIPPED, NOTHING TESTED: this sets the clock, and needs a machine of its own; `make test-kernels` has some")
	}
}

// jump sets the clock, and sets it back when the test ends.
func jump(t *testing.T, by time.Duration) {
	t.Helper()
	add := func(d time.Duration) error {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
			return err
		}
		to := unix.NsecToTimespec(now.Nano() + int64(d))
		return unix.ClockSettime(unix.CLOCK_REALTIME, &to)
	}
	if err := add(by); err != nil {
		t.Fatalf("set the clock: %v", err)
	}
	t.Cleanup(func() {
		if err := add(-by); err != nil {
			t.Errorf("set the clock back: %v", err)
		}
	})
}

// cpuTime returns the processor time of a process: clock_getcpuclockid(3).
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	const bits, ofProcess = 3, 2
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<bits|ofProcess), &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Nano())
}
