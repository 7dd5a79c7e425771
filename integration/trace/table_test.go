package trace

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/trace"
	"kube-vmap/nft/simulate"
)

// childVariable makes this program a tracer that waits to be killed. Its value is the
// destination.
const childVariable = "KUBE_VMAP_TEST_TRACER"

func TestMain(m *testing.M) {
	if to := os.Getenv(childVariable); to != "" {
		child(to)
		os.Exit(1)
	}
	os.Exit(daemon.Main(m))
}

// child traces until it is killed.
func child(to string) {
	tracer, err := trace.Open(trace.Config{Packet: simulate.Packet{To: netip.MustParseAddrPort(to), Protocol: model.TCP}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tracer.Table())
	<-time.After(time.Hour) // select {} would end as a deadlock in a program without cgo
}

// tables returns the tables of tracers.
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

// The table of a killed tracer is deleted with its socket, or, on kernels without table
// owners, by the next tracer.
func TestTableOfKilledTracerIsRemoved(t *testing.T) {
	s := newScene(t)
	for _, f := range model.Families {
		cmd := s.Node.Command(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+netip.AddrPortFrom(clusterIPs[f], servicePort).String())
		out, err := cmd.StdoutPipe()
		s.must(err)
		s.must(cmd.Start())
		name, err := bufio.NewReader(out).ReadString('\n')
		s.must(err)
		if got := s.tables(); len(got) != 1 || !strings.HasSuffix(got[0], strings.TrimSpace(name)) {
			t.Fatalf("tables %q while %q runs", got, name)
		}
		s.must(cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Error("the tracer was not killed")
		}
		if strings.TrimSpace(name) != trace.TableName { // the socket owned it
			s.waitNoTables()
		}
		s.must(s.open(trace.Config{Packet: s.packet(daemon.Transport{Protocol: model.TCP, Family: f}, servicePort)}).Close())
		s.waitNoTables()
	}
}

// waitNoTables waits until there is no table of a tracer.
func (s *scene) waitNoTables() {
	s.t.Helper()
	eventually.Holds(s.t, "no tables of tracers", func() bool { return len(s.tables()) == 0 })
}

func TestTablesWithoutOwnerAreRemoved(t *testing.T) {
	s := newScene(t)
	s.nft("table ip kube-vmap-trace { chain c { type filter hook input priority 0; jump d; }; chain d { meta nftrace set 1; }; }")
	s.nft("table ip6 kube-vmap-trace-12345 { }")
	s.nft("table inet kube-vmap-tracer { }") // of another program
	for _, w := range daemon.Transports() {
		tracer := s.open(trace.Config{Packet: s.packet(w, servicePort)})
		if got := s.tables(); len(got) != 2 {
			t.Errorf("tables %q", got)
		}
		s.must(tracer.Close())
		if got := s.tables(); len(got) != 1 || got[0] != "table inet kube-vmap-tracer" {
			t.Errorf("tables %q", got)
		}
	}
}

// onlyOneTracer reports whether only one tracer can run, because the kernel has no table
// owners.
func (s *scene) onlyOneTracer() bool {
	s.t.Helper()
	tracer := s.open(trace.Config{Packet: s.packet(daemon.Transports()[0], servicePort)})
	defer func() { s.must(tracer.Close()) }()
	return tracer.Table() == trace.TableName
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

func TestOpenWithoutPermissionNamesTheRemedy(t *testing.T) {
	labtest.Require(t)
	h := labtest.Alone(t)
	err := h.Do(func() error {
		if err := dropPrivileges(); err != nil {
			return err
		}
		_, err := trace.Open(trace.Config{Packet: simulate.Packet{To: netip.MustParseAddrPort("10.0.0.1:1"), Protocol: model.UDP}})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "run as root or with CAP_NET_ADMIN") {
		t.Error(err)
	}
}

// dropPrivileges drops all capabilities of the calling thread.
func dropPrivileges() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

func TestSeveralTracersRunAtOnce(t *testing.T) {
	s := newSceneIn(t, bridge)
	if s.onlyOneTracer() {
		t.Skip("this kernel has no table owners, so that only one tracer can run")
	}
	var tracers []*trace.Tracer
	for _, w := range daemon.Transports() {
		tracers = append(tracers, s.open(trace.Config{Packet: s.packet(w, remotePort)}))
	}
	for _, w := range daemon.Transports() {
		s.ask(s.client, w, remotePort)
	}
	for i, w := range daemon.Transports() {
		path := s.path(tracers[i])
		ended(t, path, trace.EndingSent)
		if p := path.Visits[0].Packet; p.Protocol != uint8(w.Protocol) || model.FamilyOf(p.To.Addr()) != w.Family {
			t.Errorf("%s: followed %s", w, p)
		}
	}
}
