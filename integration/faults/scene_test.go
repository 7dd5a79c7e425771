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
// the program at work on a folder.
type scene struct {
	t      *testing.T
	lab    *lab.Lab
	folder *daemon.Folder
	proxy  *daemon.Daemon
	pods   []*lab.Host // that serve
}

func newScene(t *testing.T, flags ...string) *scene {
	t.Helper()
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

// client is the pod that asks.
func (s *scene) client() *lab.Host { return s.lab.Pods[0].Host }

// web is a Service that all serving pods serve.
func (s *scene) web(change func(*daemon.Service)) daemon.Service {
	web := daemon.Service{Name: "web", Number: 1, Endpoints: s.pods}
	if change != nil {
		change(&web)
	}
	return web
}

// put has the proxy serve nothing but these.
func (s *scene) put(services ...daemon.Service) {
	s.t.Helper()
	s.proxy.After(func() { s.folder.Put("web", services...) })
}

// question is a client, and what it asks over a protocol.
type question struct {
	from *lab.Host
	to   netip.AddrPort
	daemon.Transport
}

// each asks about one fault over each protocol in both families.
func (s *scene) each(t *testing.T, from *lab.Host, to func(model.Family) netip.AddrPort, test func(*scene, question)) {
	t.Helper()
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		on := *s
		on.t = t
		test(&on, question{from, to(w.Family), w})
	})
}

// feels checks what comes of the question.
func (s *scene) feels(q question, want lab.Outcome) {
	s.t.Helper()
	a, err := q.from.Ask(q.Protocol, q.to, patience)
	if err != nil {
		s.t.Fatal(err)
	}
	if a.Outcome != want {
		s.t.Fatalf("%s asks %s over %s: %s, want %s", q.from, q.to, q.Protocol, a, want)
	}
}

// patience is how long a client waits for an answer that may not come.
const patience = 500 * time.Millisecond

// explain is the command about a question.
func (q question) explain() []string {
	return []string{"explain", "--from", q.from.Addr(q.Family).String(), "--to", fmt.Sprintf("%s/%s", q.to, q.Protocol)}
}

// explains runs explain about the question, and checks that its answer says this.
func (s *scene) explains(q question, want ...string) {
	s.t.Helper()
	s.says(q.explain(), want...)
}

// silent checks that it does not say this.
func (s *scene) silent(q question, about string) {
	s.t.Helper()
	if said := daemon.Run(s.t, s.lab.Node.Host, q.explain()...); strings.Contains(said.Stdout, about) {
		s.t.Errorf("explain says %q:\n%s", about, said.Stdout)
	}
}

// says runs a command on the node, and checks that its answer says this. With
// SHOW_FAULTS in the environment the answers are shown.
func (s *scene) says(args []string, want ...string) {
	s.t.Helper()
	said := daemon.Run(s.t, s.lab.Node.Host, args...)
	if os.Getenv("SHOW_FAULTS") != "" {
		s.t.Logf("$ kube-vmap %s\n%s%s(exit code %d)", strings.Join(args, " "), said.Stdout, said.Stderr, said.ExitCode)
	}
	for _, w := range want {
		if !strings.Contains(said.Stdout, w) {
			s.t.Errorf("kube-vmap %s does not say %q:\n%s%s", strings.Join(args, " "), w, said.Stdout, said.Stderr)
		}
	}
}
