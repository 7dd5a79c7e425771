package trace

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/trace"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

func (s *scene) tables() (list []string) {
	s.t.Helper()
	for line := range strings.Lines(s.nft("list tables")) {
		line, _, _ = strings.Cut(line, " #")
		if strings.Contains(line, trace.TableName) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

func TestTableOfKilledTracerIsRemoved(t *testing.T) {
	s := newScene(t)
	for _, f := range model.Families {
		c := s.start(daemon.Transport{Protocol: model.TCP, Family: f}, servicePort)
		s.waitReady(c)
		if got := s.tables(); len(got) != 1 || !strings.HasPrefix(got[0], "table "+nft.FamilyName(f)+" ") {
			t.Fatalf("tables %q", got)
		}
		c.Kill()
		s.waitNoTables()
	}
}

// waitNoTables waits until there is no table of a tracer.
func (s *scene) waitNoTables() {
	s.t.Helper()
	eventually.Holds(s.t, "no tables of tracers", func() bool { return len(s.tables()) == 0 })
}

// The proxy's socket owns our tables here, if the kernel supports that.
func TestTracingDoesNotChangeOurTables(t *testing.T) {
	s := newScene(t)
	before, err := s.kernel.Read()
	s.must(err)
	for _, w := range daemon.Transports() {
		tracer := s.open(trace.Config{Packet: s.packet(w, servicePort), Replies: true})
		s.ask(s.client, w, servicePort)
		s.path(tracer)
		during, err := s.kernel.Read()
		s.must(err)
		s.must(tracer.Close())
		after, err := s.kernel.Read()
		s.must(err)
		if !reflect.DeepEqual(before, during) || !reflect.DeepEqual(before, after) {
			t.Errorf("%s: our tables changed", w)
		}
	}
}

// Commits of other programs are not sent to a tracer.
func TestTracerReceivesNoChangeEvents(t *testing.T) {
	s := newScene(t)
	tracer := s.open(trace.Config{Packet: s.packet(daemon.Transports()[0], servicePort)})
	for range 50 {
		s.nft("table inet busy { chain c { type filter hook input priority 0; accept; }; }; delete table inet busy")
	}
	s.expectNoMore(tracer)
}
