package fastpath

import (
	"net/netip"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/nft/kernel/flowtable"
)

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
