package fastpath

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/flowtable"
)

// asked are the round trips of which packets are counted.
const asked = 10

func TestEstablishedConnectionsBypassTheForwardHook(t *testing.T) {
	for _, bridge := range []bool{false, true} {
		m := newMachine(t, lab.Options{Pods: 3, RemotePods: 1, Bridge: bridge}, "pod-1")
		remote := newMachine(t, lab.Options{Pods: 3, RemotePods: 1, Bridge: bridge}, "remote-1")
		for _, way := range []struct {
			name string
			*machine
			from   *lab.Host
			kind   model.Kind
			slowly bool // between pods of one bridge, or of a pod to itself there; without a Service
			direct bool // to the pod itself
		}{
			{"pod to pod", m, m.Pods[2].Host, model.KindClusterIP, bridge, false},
			{"pod to itself", m, m.Pods[0].Host, model.KindClusterIP, bridge, false},
			{"pod to pod without a Service", m, m.Pods[2].Host, model.KindClusterIP, true, true},
			{"outside to pod", m, m.Outside, model.KindNodePort, false, false},
			{"pod to another node", remote, remote.Pods[2].Host, model.KindClusterIP, false, false},
			{"outside to another node", remote, remote.Outside, model.KindNodePort, false, false},
		} {
			for _, w := range daemon.Transports() {
				to := way.service.AddrPort(way.Node, w.Family, way.kind, 0)
				if way.direct {
					to = way.Pods[0].AddrPort(w.Family, daemon.TargetPort)
				}
				f := way.open(way.from, w, to)
				seen := way.forwarded(w.Family, func() {
					for range asked {
						way.ask(f)
					}
				})
				if slowly := way.slowly || w.Protocol == model.SCTP; slowly != (seen >= 2*asked) || !slowly && seen > 0 {
					t.Errorf("%s, %s, bridge %t: the hook saw %d packets of %d round trips, slowly %t", way.name, w, bridge, seen, asked, slowly)
				}
			}
		}
	}
}

func TestShortConnectionsDoNotEnter(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1", "--fast-path-after=200")
	for _, w := range daemon.Transports() {
		f := m.open(m.Pods[2].Host, w, m.service.ClusterAddrPort(w.Family))
		if seen := m.forwarded(w.Family, func() { m.ask(f) }); seen < 2 {
			t.Errorf("%s: the hook saw %d packets of a connection below the threshold", w, seen)
		}
	}
}

// TestUDPToRemovedEndpointEnds changes the only endpoint of a flow that takes the fast path, again and
// again, while its client goes on sending.
func TestUDPToRemovedEndpointEnds(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	for i := range 8 {
		family := model.Families[i%len(model.Families)]
		old, next := "pod-1", "pod-2"
		if m.service.EndpointSpec == next {
			old, next = next, old
		}
		w := daemon.Transport{Protocol: model.UDP, Family: family}
		f := m.open(m.Pods[2].Host, w, m.service.ClusterAddrPort(family))
		if by := m.ask(f).By; by != old {
			t.Fatalf("%s answers, want %s", by, old)
		}
		m.setEndpoints(next)
		eventually.Succeeds(t, family.String()+": an answer by "+next, func() error {
			// A question that is on its way when its flow is deleted has no answer.
			a, err := f.Ask(50 * time.Millisecond)
			if err == nil && a.By != next {
				err = fmt.Errorf("got %s", a)
			}
			return err
		})
	}
}

func TestTCPToRemovedEndpointContinuesAsWithoutFastPath(t *testing.T) {
	for _, flag := range []string{"--end-tcp-flows=false", "--end-tcp-flows"} {
		m := newMachine(t, lab.Options{Pods: 3}, "pod-1", flag)
		for _, family := range model.Families {
			m.setEndpoints("pod-1")
			f := m.open(m.Pods[2].Host, daemon.Transport{Protocol: model.TCP, Family: family}, m.service.ClusterAddrPort(family))
			m.setEndpoints("pod-2")
			a := lab.Answer{Outcome: lab.Answered}
			for changed := time.Now(); a.Outcome == lab.Answered && time.Since(changed) < 3*time.Second; {
				var err error
				if a, err = f.Ask(time.Second); err != nil {
					t.Fatal(err)
				}
			}
			if continues := a.Outcome == lab.Answered; continues != (flag != "--end-tcp-flows") {
				t.Errorf("%s, %s: %s", flag, family, a)
			}
		}
	}
}

// TestResetConnectionIsForgotten opens a connection from the port of one that was reset. The
// kernel has not followed the sequence numbers of packets on the fast path and calls the reset
// connection established, but forgets it after the 10 s of a closed one, or, as 6.12.117, when a
// packet has been unacknowledged for long.
func TestResetConnectionIsForgotten(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	if err := m.Node.Do(func() error {
		return os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_unacknowledged", []byte("10"), 0)
	}); err != nil {
		t.Fatal(err)
	}
	for _, family := range model.Families {
		w := daemon.Transport{Protocol: model.TCP, Family: family}
		to := m.service.ClusterAddrPort(family)
		f := m.open(m.Pods[2].Host, w, to)
		local := m.ask(f).Local
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		m.setEndpoints("pod-2")
		time.Sleep(12 * time.Second) //nolint:forbidigo // an earlier attempt would be a packet of the reset connection
		again, err := m.Pods[2].Flow(model.TCP, netip.AddrPortFrom(netip.Addr{}, local.Port()), to)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := again.Ask(answer); err != nil || a.By != "pod-2" {
			t.Errorf("%s: a new connection from the same port: %s, %v; want an answer by pod-2", family, a, err)
		}
		_ = again.Close()
		m.setEndpoints("pod-1")
	}
}

func TestNewPodsTakeTheFastPath(t *testing.T) {
	m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
	var links []string
	var last *lab.Pod
	for range 3 {
		pod, err := m.Node.AddPod()
		if err != nil {
			t.Fatal(err)
		}
		links, last = append(links, pod.Link), pod
	}
	m.awaitDevices(links...)
	for _, w := range daemon.Transports()[:4] { // TCP and UDP
		f := m.open(last.Host, w, m.service.ClusterAddrPort(w.Family))
		if seen := m.forwarded(w.Family, func() { m.ask(f) }); seen > 0 {
			t.Errorf("%s: the hook saw %d packets of a new pod", w, seen)
		}
	}
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	eventually.Succeeds(t, "the interface of a removed pod leaves", func() error {
		tables, err := flowtable.List(m.Node.FD())
		if err == nil && strings.Contains(strings.Join(tables[0].Devices, " "), last.Link) {
			return errThere
		}
		return err
	})
}

func TestOffBesideOtherOwners(t *testing.T) {
	for name, table := range map[string]string{
		"another program has a flowtable": "table inet other { flowtable f { hook ingress priority 0; devices = { eth0 }; }; }",
		"Calico":                          "table ip calico { chain c { type filter hook forward priority 0; }; }",
		"not recognized":                  "table inet site { chain c { type filter hook forward priority 0; }; }",
	} {
		m := newMachine(t, lab.Options{Pods: 3}, "pod-1")
		m.Ignore("the fast path is off")
		m.nft(table)
		m.Logged(0, "the fast path is off", func(e process.Entry) bool { return strings.Contains(e["reason"], name) })
		m.expectTable(false)
		out := daemon.Run(t, m.Node.Host, "status")
		if !strings.Contains(out.Stdout, "off: ") || !strings.Contains(out.Stdout, name) {
			t.Errorf("%s: status prints %s", name, out.Stdout)
		}
		fields := strings.Fields(table)
		m.nft("delete table " + fields[1] + " " + fields[2])
		m.AwaitMessages(2, "the fast path is on")
		m.expectTable(true)
	}
}

// TestKernelWithoutFlowtables runs where the others cannot: Services work, and the reason is
// named.
func TestKernelWithoutFlowtables(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 3})
	if table, _, err := flowtable.Add(l.Node.FD(), []string{"lo"}, 1); err == nil {
		_ = table.Close()
		t.Skip("a kernel without flowtables cannot be had here")
	}
	folder := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, EndpointSpec: "pod-1"}
	folder.Put("web", s)
	if err := l.Pods[0].ServeAll(daemon.TargetPort); err != nil {
		t.Fatal(err)
	}
	d := daemon.Launch{Node: l.Node, Folder: folder, Flags: []string{"--fast-path"}, Problems: true}.Start(t)
	d.AwaitMessage("ready")
	d.AwaitMessage("the fast path is off")
	for _, w := range daemon.Transports() {
		a, err := l.Pods[2].AskFresh(w.Protocol, netip.Addr{}, s.ClusterAddrPort(w.Family), answer)
		if err != nil || a.By != "pod-1" {
			t.Errorf("%s: %s, %v", w, a, err)
		}
	}
	if out := daemon.Run(t, l.Node.Host, "status"); !strings.Contains(out.Stdout, "nft_flow_offload") {
		t.Errorf("status does not name the module: %s", out.Stdout)
	}
}
