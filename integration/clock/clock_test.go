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
	// answer is how long an answer may take on a busy machine.
	answer = 5 * time.Second
	// remembered is how long clients keep their endpoints.
	remembered = 2 * time.Hour
	// brief is a memory that a test can wait for.
	brief = 2 * time.Second
	// quiet is how long the proxy is watched that has nothing to do, and idle how
	// much it may do meanwhile: a fiftieth of a processor.
	quiet = 5 * time.Second
	idle  = quiet / 50
)

var jumps = []struct {
	says string
	by   time.Duration
}{
	{"a year forwards", 365 * 24 * time.Hour},
	{"a day backwards", -24 * time.Hour},
}

// TestTheProxyDoesNotMindWhatTimeItIs has the clock jump while the proxy has
// nothing to do, and while it follows changes.
func TestTheProxyDoesNotMindWhatTimeItIs(t *testing.T) {
	mustBeOurs(t)
	for _, j := range jumps {
		t.Run(j.says, func(t *testing.T) {
			s := newScene(t)
			asking := s.keepAsking()
			had, before := s.who(s.sticky), s.expiries()
			began := time.Now() // goes on by a clock that does not jump
			jump(t, j.by)

			pid := find(t)
			work := worked(t, pid)
			<-time.After(quiet)
			if work = worked(t, pid) - work; work > idle {
				t.Errorf("the proxy worked for %s of %s in which nothing happened", work, quiet)
			}
			s.keepsTime(before, time.Since(began))
			for range 3 {
				s.follows()
				if now := s.who(s.sticky); now != had {
					t.Errorf("clients were answered by %v, and are now by %v", had, now)
				}
			}
			s.forgets()
			if err := asking(); err != nil {
				t.Error(err)
			}
		})
	}
}

// scene is a proxy with two Services whose clients keep their endpoints, and one
// that changes.
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
	s.sticky = daemon.Service{Name: "sticky", Number: 1, Endpoints: servers, Affinity: remembered}
	s.short = daemon.Service{Name: "short", Number: 2, Endpoints: servers, Affinity: brief}
	s.moving = daemon.Service{Name: "moving", Number: 3, Endpoints: servers[:1]}
	s.put()
	s.proxy = daemon.Start(t, s.lab.Node, s.folder)
	return s
}

func (s *scene) put() { s.folder.Put("services", s.sticky, s.short, s.moving) }

// ask asks a Service from the pod that serves nothing.
func (s *scene) ask(w daemon.Transport, of daemon.Service) string {
	s.t.Helper()
	a, err := s.lab.Pods[3].Ask(w.Protocol, of.AddrPort(s.lab.Node, w.Family, model.KindClusterIP, 0), answer)
	if err != nil || a.Outcome != lab.Answered {
		s.t.Fatalf("%s, %s: %s, %v", of.Name, w, a, err)
	}
	return a.By
}

// answers are who answered, each way.
type answers [6]string

// who is answered by whom, which must be the same each time.
func (s *scene) who(of daemon.Service) (by answers) {
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

// follows changes the Service that moves, and asks for what it was changed to.
func (s *scene) follows() {
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

// forgets waits until the kernel has forgotten the clients of the Service that
// remembers them briefly.
func (s *scene) forgets() {
	s.t.Helper()
	s.who(s.short)
	remembers := func() int { return len(s.expiries()) }
	if n := remembers(); n != 2*len(answers{}) {
		s.t.Errorf("%d clients are remembered, want those of two Services", n)
	}
	for began := time.Now(); remembers() > len(answers{}); <-time.After(100 * time.Millisecond) {
		if time.Since(began) > 3*brief {
			s.t.Fatalf("clients are still remembered after %s", time.Since(began))
		}
	}
}

var expires = regexp.MustCompile(`expires ([0-9a-z]+)`)

// expiries are how long each client is still remembered, in no order.
func (s *scene) expiries() (all []time.Duration) {
	s.t.Helper()
	for _, f := range model.Families {
		out, err := s.lab.Node.Command(s.t.Context(), "nft", "list", "map", nft.FamilyName(f), nft.TableName, "affinity").Output()
		if err != nil {
			s.t.Fatalf("list the clients that are remembered: %v", err)
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

// keepsTime checks that what the kernel remembers ends neither sooner nor later
// than it would have.
func (s *scene) keepsTime(before []time.Duration, passed time.Duration) {
	s.t.Helper()
	after := s.expiries()
	if len(after) == 0 || len(after) != len(before) {
		s.t.Fatalf("%d clients were remembered, and %d are", len(before), len(after))
	}
	const rough = time.Second // the listings are not of the same moment
	for _, left := range after {
		if left > remembered-passed+rough || left < remembered-passed-time.Minute {
			s.t.Errorf("a client is remembered for another %s, %s after it was for %s", left, passed, remembered)
		}
	}
}

// keepAsking asks the proxy for its health, all the time until the function is
// called that it returns, which says whether it ever was bad.
func (s *scene) keepAsking() (stop func() error) {
	done := make(chan struct{})
	client := http.Client{Transport: &http.Transport{DialContext: s.lab.Node.DialContext}, Timeout: answer}
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
				return fmt.Errorf("healthz says %s", response.Status)
			}
			select {
			case <-done:
				if n < 10 {
					return errors.New("the proxy was hardly asked for its health")
				}
				return nil
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return func() error { close(done); return group.Wait() }
}
