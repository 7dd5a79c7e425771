package diagnosis

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// crowdPorts is how many ports the Service has that fills the counters.
const crowdPorts = 600

// TestNamespaceThatFillsTheCountersIsEvicted fills the set of counters with pairs of one
// namespace. From then on the connections of another one are counted exactly, and the first
// one's are reported as not counted.
func TestNamespaceThatFillsTheCountersIsEvicted(t *testing.T) {
	s := newScene(t, 3, 0)
	k := labtest.Kernel(t, s.Node.Host)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: s.servers}
	early := daemon.Service{Name: "early", Number: 2, Endpoints: s.servers[:1]}
	crowd := daemon.Service{Name: "crowd", Number: 3, Endpoints: s.servers[:1], Ports: crowdPorts, Namespace: "crowd"}
	s.folder.Put("web", web, early)
	s.folder.Put("crowd", crowd)
	d := daemon.Start(t, s.Node, s.folder, "--protect-tables=false")
	d.Ignore("connections of frontends not counted: too many pairs of destination and endpoint")
	d.Ignore("connection counters full, new pairs of destination and endpoint are not counted")
	if out := s.run("problems", "-n", "crowd", "--observe", "0"); out.ExitCode == 2 {
		t.Errorf("problems before: %v", out)
	}
	for _, f := range model.Families {
		fillCounters(t, k, crowd, f)
	}
	for _, f := range model.Families { // finds the set full
		to := early.AddrPort(s.Node, f, model.KindClusterIP, 0)
		if got, err := s.Outside.AskFresh(model.TCP, netip.Addr{}, to, answer); err != nil || got.Outcome != lab.Answered {
			t.Fatalf("outside asks %s: %s, %v", to, got, err)
		}
	}
	for _, f := range model.Families {
		eventually.Succeeds(t, "room among "+f.String()+" counters", func() error {
			out, err := k.Uncounted(f)
			if err == nil && len(out) == 0 {
				err = errors.New("all frontends are counted")
			}
			return err
		})
	}
	d.AwaitMessages(len(model.Families), "connections of frontends not counted: too many pairs of destination and endpoint")
	s.each(t, web, 6)
	eventually.Succeeds(t, "exact counts of another namespace", func() error {
		got := counted(t, k)
		for at := range got {
			if at.asked.Addr == crowd.Addr(at.asked.Family, model.KindClusterIP) {
				delete(got, at)
			}
		}
		if diff := cmp.Diff(s.ledger.lines, got); diff != "" {
			return fmt.Errorf("made and counted differ (-made +counted):\n%s", diff)
		}
		return nil
	})
	s.expectNotCounted(t)
}

// fillCounters adds pairs of the Service that do not exist until the set is full, as packets
// to them would: with real ones it takes half a minute.
func fillCounters(t *testing.T, k *kernel.Kernel, of daemon.Service, f model.Family) {
	t.Helper()
	total := 0
	for size := 4096; size > 0; {
		op := nft.AddConnections{Family: f, List: make([]nft.ConnectionCount, size)}
		for i := range op.List {
			n := total + i
			to := of.AddrPort(nil, f, model.KindClusterIP, n%crowdPorts)
			m := model.Match{Family: f, Addr: to.Addr(), Protocol: model.UDP, Port: to.Port()}
			endpoint := netip.AddrPortFrom(lab.OutsideRanges[f].Addr(), uint16(1+n/crowdPorts))
			op.List[i] = nft.ConnectionCount{Destination: m, Endpoint: endpoint, Connections: 1}
		}
		_, err := k.Apply(nft.Batch{op})
		switch {
		case errors.Is(err, unix.ENFILE):
			size /= 2
		case err != nil:
			t.Fatalf("add %d counters after %d: %v", size, total, err)
		default:
			total += size
		}
	}
	t.Logf("%s: full with %d more counters", f, total)
}

// expectNotCounted checks that commands and metrics report what is not counted.
func (s *scene) expectNotCounted(t *testing.T) {
	t.Helper()
	if out := s.run("problems", "-n", "crowd", "--observe", "0"); out.ExitCode != 2 || !strings.Contains(out.Stdout, "NotCounted") {
		t.Errorf("problems: %v", out)
	}
	if out := s.run("get", "svc", "-n", "crowd"); out.ExitCode != 2 || !strings.Contains(out.Stdout, "?") {
		t.Errorf("get: %v", out)
	}
	if out := s.run("get", "svc", "web"); out.ExitCode != 0 || strings.Contains(out.Stdout, "?") {
		t.Errorf("get of another namespace: %v", out)
	}
	metric := regexp.MustCompile(`(?m)^kubevmap_connections_(not_counted_total|uncounted_frontends)\{ip_family="IPv[46]"\} [1-9]`)
	eventually.Succeeds(t, "metrics", func() error {
		page, err := s.Node.Get("http://127.0.0.1:10249/metrics", answer)
		if found := metric.FindAllString(page, -1); err == nil && len(found) != 2*len(model.Families) {
			err = fmt.Errorf("only %q", found)
		}
		return err
	})
}
