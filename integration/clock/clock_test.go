package clock

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answerTimeout is how long an answer may take on a busy machine.
	answerTimeout = 5 * time.Second
	// longAffinity outlasts the test, shortAffinity does not.
	longAffinity, shortAffinity = 2 * time.Hour, 2 * time.Second
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
			stopHealthChecks := s.checkHealth()
			had, before := s.answeredBy(s.sticky), s.expiries()
			began := time.Now() // monotonic, it does not jump
			jump(t, j.by)

			used := cpuTime(t, s.proxy.PID())
			<-time.After(idlePeriod)
			if used = cpuTime(t, s.proxy.PID()) - used; used > maxIdleCPU {
				t.Errorf("the idle proxy used %s of processor time in %s", used, idlePeriod)
			}
			s.checkExpiries(before, time.Since(began))
			for range 3 {
				s.changeService()
				if now := s.answeredBy(s.sticky); now != had {
					t.Errorf("clients were answered by %v, and now by %v", had, now)
				}
			}
			s.awaitExpiry()
			if err := stopHealthChecks(); err != nil {
				t.Error(err)
			}
		})
	}
}

// scene is a proxy with two Services with session affinity, and one that changes.
type scene struct {
	t                     *testing.T
	lab                   *lab.Lab
	folder                *daemon.Folder
	proxy                 *daemon.Daemon
	sticky, short, moving daemon.Service
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, lab: labtest.New(t, lab.Options{Pods: 4})}
	var servers []*lab.Host
	for _, pod := range s.lab.Pods[:3] {
		if err := pod.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, pod.Host)
	}
	s.folder = daemon.NewFolder(t, s.lab)
	s.sticky = daemon.Service{Name: "sticky", Number: 1, Endpoints: servers, Affinity: longAffinity}
	s.short = daemon.Service{Name: "short", Number: 2, Endpoints: servers, Affinity: shortAffinity}
	s.moving = daemon.Service{Name: "moving", Number: 3, Endpoints: servers[:1]}
	s.put()
	s.proxy = daemon.Start(t, s.lab.Node, s.folder)
	return s
}

func (s *scene) put() { s.folder.Put("services", s.sticky, s.short, s.moving) }

// ask sends a request to a Service from the pod that is no server, and returns who answers.
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

// awaitExpiry waits until the affinity of the clients of the Service short has expired.
func (s *scene) awaitExpiry() {
	s.t.Helper()
	s.answeredBy(s.short)
	entries := func() int { return len(s.expiries()) }
	if n := entries(); n != 2*len(answers{}) {
		s.t.Errorf("%d affinity entries, want those of two Services", n)
	}
	for began := time.Now(); entries() > len(answers{}); <-time.After(100 * time.Millisecond) {
		if time.Since(began) > 3*shortAffinity {
			s.t.Fatalf("affinity entries have not expired after %s", time.Since(began))
		}
	}
}

var expires = regexp.MustCompile(`expires ([0-9a-z]+)`)

// expiries returns the remaining times of all affinity entries, in no order.
func (s *scene) expiries() (all []time.Duration) {
	s.t.Helper()
	for _, f := range model.Families {
		out, err := s.lab.Node.Command(s.t.Context(), "nft", "list", "map", nft.FamilyName(f), nft.TableName, "affinity").Output()
		if err != nil {
			s.t.Fatalf("list the affinity map: %v", err)
		}
		for _, match := range expires.FindAllSubmatch(out, -1) {
			d, err := time.ParseDuration(string(match[1]))
			if err != nil {
				s.t.Fatal(err)
			}
			all = append(all, d)
		}
	}
	return all
}

// checkExpiries checks that affinity entries expire neither earlier nor later than they
// would have without a jump.
func (s *scene) checkExpiries(before []time.Duration, passed time.Duration) {
	s.t.Helper()
	after := s.expiries()
	if len(after) == 0 || len(after) != len(before) {
		s.t.Fatalf("%d affinity entries before, %d after", len(before), len(after))
	}
	const tolerance = time.Second // between the two listings
	for _, left := range after {
		if left > longAffinity-passed+tolerance || left < longAffinity-passed-time.Minute {
			s.t.Errorf("an affinity entry expires in %s, %s after it had %s", left, passed, longAffinity)
		}
	}
}

// checkHealth requests the proxy's health continuously, until the function it returns is
// called, which returns an error if it ever was bad.
func (s *scene) checkHealth() (stop func() error) {
	done := make(chan struct{})
	client := http.Client{Transport: &http.Transport{DialContext: s.lab.Node.DialContext}, Timeout: answerTimeout}
	var group errgroup.Group
	group.Go(func() error {
		for n := 0; ; n++ {
			response, err := client.Get("http://127.0.0.1:10256/healthz")
			if err != nil {
				return err
			}
			if err := response.Body.Close(); err != nil {
				return err
			}
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("healthz: %s", response.Status)
			}
			select {
			case <-done:
				if n < 10 {
					return errors.New("too few health checks")
				}
				return nil
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return func() error { close(done); return group.Wait() }
}
