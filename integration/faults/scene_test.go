package faults

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// scene is a node with pods, the first of which is the client, one host outside, and
// kube-vmap with a folder of manifests.
type scene struct {
	t      *testing.T
	lab    *lab.Lab
	folder *daemon.Folder
	proxy  *daemon.Daemon
	pods   []*lab.Host // the servers
}

func newScene(t *testing.T, flags ...string) *scene {
	t.Helper()
	t.Parallel()
	if err := lab.Missing(); err != nil {
		t.Skip(err)
	}
	l, err := lab.New(lab.Options{Pods: 3, RemotePods: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &scene{t: t, lab: l, folder: daemon.NewFolder(t, l)}
	for _, p := range l.Pods[1:] {
		s.pods = append(s.pods, p.Host)
		if err := p.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
	}
	daemon.RouteServices(t, l, l.Node)
	s.proxy = daemon.Start(t, l.Node, s.folder, flags...)
	return s
}

// client returns the pod that is the client.
func (s *scene) client() *lab.Host { return s.lab.Pods[0].Host }

// web returns a Service of all servers.
func (s *scene) web(change func(*daemon.Service)) daemon.Service {
	web := daemon.Service{Name: "web", Number: 1, Endpoints: s.pods}
	if change != nil {
		change(&web)
	}
	return web
}

// put replaces all Services.
func (s *scene) put(services ...daemon.Service) {
	s.t.Helper()
	s.proxy.After(func() { s.folder.Put("web", services...) })
}

// question is a client, an address and a protocol.
type question struct {
	from *lab.Host
	to   netip.AddrPort
	daemon.Transport
}

// each tests one fault over each protocol in both families.
func (s *scene) each(t *testing.T, from *lab.Host, to func(model.Family) netip.AddrPort, test func(*scene, question)) {
	t.Helper()
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		on := *s
		on.t = t
		test(&on, question{from, to(w.Family), w})
	})
}

// expectOutcome checks the outcome of the question.
func (s *scene) expectOutcome(q question, want lab.Outcome) {
	s.t.Helper()
	wait := answer
	if want == lab.TimedOut {
		wait = patience
	}
	a, err := q.from.Ask(q.Protocol, q.to, wait)
	if err != nil {
		s.t.Fatal(err)
	}
	if a.Outcome != want {
		s.t.Fatalf("%s asks %s over %s: %s, want %s", q.from, q.to, q.Protocol, a, want)
	}
}

const (
	// answer is how long a client waits for an answer that must come.
	answer = 5 * time.Second
	// patience is how long it waits for one that may not come.
	patience = 500 * time.Millisecond
)

// explain returns the arguments of the command that explains the question.
func (q question) explain() []string {
	return []string{"explain", "--from", q.from.Addr(q.Family).String(), "--to", fmt.Sprintf("%s/%s", q.to, q.Protocol)}
}

// explains checks that explain prints these texts about the question.
func (s *scene) explains(q question, want ...string) {
	s.t.Helper()
	s.expectOutput(q.explain(), want...)
}

// doesNotExplain checks that explain does not print a text about the question.
func (s *scene) doesNotExplain(q question, text string) {
	s.t.Helper()
	if got := daemon.Run(s.t, s.lab.Node.Host, q.explain()...); strings.Contains(got.Stdout, text) {
		s.t.Errorf("unexpected %q:\n%s", text, got.Stdout)
	}
}

// expectOutput runs a command on the node, and checks that its output contains these
// texts. With SHOW_FAULTS in the environment it logs the output.
func (s *scene) expectOutput(args []string, want ...string) {
	s.t.Helper()
	got := daemon.Run(s.t, s.lab.Node.Host, args...)
	if os.Getenv("SHOW_FAULTS") != "" {
		s.t.Logf("$ kube-vmap %s\n%s%s(exit code %d)", strings.Join(args, " "), got.Stdout, got.Stderr, got.ExitCode)
	}
	for _, w := range want {
		if !strings.Contains(got.Stdout, w) {
			s.t.Errorf("kube-vmap %s does not print %q:\n%s%s", strings.Join(args, " "), w, got.Stdout, got.Stderr)
		}
	}
}
