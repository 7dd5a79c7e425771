package trace

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
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
	at := netip.MustParseAddrPort(to)
	tracer, err := trace.Open(trace.Config{Packet: simulate.Packet{From: at.Addr(), To: at, Protocol: model.TCP}})
	if fmt.Println(err); err == nil {
		<-time.After(time.Hour) // select {} would end as a deadlock in a program without cgo
	}
	runtime.KeepAlive(tracer) // its sockets
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

func TestTableOfKilledTracerIsRemoved(t *testing.T) {
	s := newScene(t)
	for _, f := range model.Families {
		cmd := s.Node.Command(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+netip.AddrPortFrom(clusterIPs[f], servicePort).String())
		out, err := cmd.StdoutPipe()
		s.must(err)
		s.must(cmd.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		s.must(err)
		if got := s.tables(); len(got) != 1 || !strings.HasPrefix(got[0], "table "+nft.FamilyName(f)+" ") {
			t.Fatalf("tables %q", got)
		}
		s.must(cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Error("the tracer was not killed")
		}
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

func TestOpenWithoutPermissionNamesTheRemedy(t *testing.T) {
	labtest.Require(t)
	h := labtest.Alone(t)
	err := h.Do(func() error {
		if err := dropPrivileges(); err != nil {
			return err
		}
		_, err := trace.Open(trace.Config{Packet: simulate.Packet{
			From: netip.MustParseAddr("10.0.0.2"), To: netip.MustParseAddrPort("10.0.0.1:1"), Protocol: model.UDP,
		}})
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
