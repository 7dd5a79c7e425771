package matrix

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/model"
)

// TestOverwrittenMarksCostNoConnection has tables of other programs that overwrite the whole
// mark of packets, wherever rules can run between those that request masquerade and those
// that masquerade. All clients still reach all endpoints, the endpoints still see the node
// where they must, and explain knows it.
func TestOverwrittenMarksCostNoConnection(t *testing.T) {
	s := newMarksScene(t)
	sets := readEndpoints()[:2] // at random, and with session affinity
	s.put(matrixServices(sets)...)
	s.start(daemon.PodRanges, nodePortAddresses)
	table := readFlows(t, "pods are detected")
	for _, mark := range []string{"0", "0x80", "0xffffbfff"} {
		t.Run("marks become "+mark, func(t *testing.T) {
			s.t = t
			s.nft(overwriting(mark))
			defer s.nft("delete table inet others")
			for i, set := range sets {
				cells := sampled(s.cells(table, set, i))
				s.check(t, slices.Clone(cells))
				s.checkExplained(t, cells)
			}
		})
	}
}

// TestMarkIsSeenBetweenTheHooks has a program that looks for the mark, as programs do that
// know kube-proxy's.
func TestMarkIsSeenBetweenTheHooks(t *testing.T) {
	s := newMarksScene(t)
	s.put(daemon.Service{Number: 1, EndpointSpec: "pod-1 remote-1"})
	s.start(daemon.PodRanges)
	var table strings.Builder
	for _, h := range hooksBetween {
		fmt.Fprintf(&table, "set %s { typeof meta nfproto . meta l4proto; size 16; flags dynamic; }\n", h.name)
		fmt.Fprintf(&table, "chain at-%[1]s { type filter hook %[1]s priority %d; meta mark & 0x4000 == 0x4000 add @%[1]s { meta nfproto . meta l4proto }; }\n",
			h.name, h.priorities[0])
	}
	s.nft("table inet others {\n" + table.String() + "}")
	s.check(t, asks(s.clients(), usual, 1, by(anySource, "pod-1 remote-1")))
	for _, h := range hooksBetween {
		got := s.nft("list set inet others " + h.name)
		for _, w := range daemon.Transports() {
			want := fmt.Sprintf("%s . %s", [...]string{"ipv4", "ipv6"}[w.Family], w.Protocol)
			if !strings.Contains(got, want) {
				t.Errorf("hook %s, %s: the mark was not seen:\n%s", h.name, want, got)
			}
		}
	}
}

// TestMarkedPacketsOfNoServiceKeepTheirSource has a program whose mark contains the bit that requests
// masquerade, as wg-quick's does.
func TestMarkedPacketsOfNoServiceKeepTheirSource(t *testing.T) {
	s := newMarksScene(t)
	s.must(s.RemotePods[0].ServeAll(port))
	s.put(daemon.Service{Number: 1, EndpointSpec: "remote-1"})
	s.start(daemon.PodRanges)
	s.nft(overwriting("0xca6c"))
	at := func(f model.Family) netip.AddrPort { return addrPort(s.RemotePods[0].Addr(f), port) }
	s.check(t, asksAt([]*client{s.pod}, at, by(own, "remote-1")))
	s.check(t, asks([]*client{s.outside}, usual, 1, by(snat, "remote-1")))
}

func newMarksScene(t *testing.T) *scene {
	t.Helper()
	if kubeProxy != "" {
		t.Skip("kube-proxy masquerades by the mark alone")
	}
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	return s
}

// hooksBetween are the priorities of chains that see packets after masquerade was requested,
// in nat-prerouting and nat-output (-101), and before nat-postrouting (100).
var hooksBetween = []struct {
	name       string
	priorities []int
}{
	{"prerouting", []int{-99, -98, -90, 0, 50, 300}},
	{"forward", []int{-150, -1, 0, 1, 50}},
	{"output", []int{-99, -98, -90, -1, 0, 50, 300}},
	{"postrouting", []int{-300, -150, -1, 0, 50, 99}},
}

// overwriting is a table that overwrites all marks.
func overwriting(mark string) string {
	var chains strings.Builder
	for _, h := range hooksBetween {
		for i, priority := range h.priorities {
			fmt.Fprintf(&chains, "chain %[1]s-%[2]d { type filter hook %[1]s priority %[3]d; meta mark set %[4]s; }\n", h.name, i, priority, mark)
		}
	}
	return "table inet others {\n" + chains.String() + "}"
}

// nft runs commands of nft on the node and returns their output.
func (s *scene) nft(commands string) string {
	s.t.Helper()
	return s.command(commands, "nft", "-f", "-")
}
