package fastpath

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel/flowtable"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	answer = 5 * time.Second
	// entered is more round trips than a connection needs to take the fast path: one after
	// the threshold adds it.
	entered = 15
)

// A machine is a lab whose node runs kube-vmap with a Service.
type machine struct {
	*lab.Lab
	*daemon.Daemon
	t       *testing.T
	folder  *daemon.Folder
	service daemon.Service
}

// newMachine starts kube-vmap with --fast-path, a Service of these endpoints, and waits until
// the fast path is on.
func newMachine(t *testing.T, o lab.Options, endpoints string, flags ...string) *machine {
	t.Helper()
	m := idleMachine(t, o, endpoints)
	m.start(append([]string{"--fast-path"}, flags...)...)
	m.AwaitMessage("the fast path is on")
	return m
}

// idleMachine does not start kube-vmap.
func idleMachine(t *testing.T, o lab.Options, endpoints string) *machine {
	t.Helper()
	l := labtest.New(t, o)
	table, _, err := flowtable.Add(l.Node.FD(), []string{"lo"}, 1)
	if err != nil {
		t.Skipf("flowtables cannot be had from this kernel: %v", err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	servers := []*lab.Host{l.Pods[0].Host, l.Pods[1].Host}
	for _, p := range l.RemotePods {
		servers = append(servers, p.Host)
	}
	for _, h := range servers {
		if err := h.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
	}
	m := &machine{Lab: l, t: t, folder: daemon.NewFolder(t, l)}
	m.service = daemon.Service{Name: "web", Number: 1, Kinds: []model.Kind{model.KindNodePort}, EndpointSpec: endpoints}
	m.folder.Put("web", m.service)
	return m
}

func (m *machine) start(flags ...string) { m.Daemon = daemon.Start(m.t, m.Node, m.folder, flags...) }

func (m *machine) setEndpoints(spec string) {
	m.t.Helper()
	if spec == m.service.EndpointSpec {
		return
	}
	m.service.EndpointSpec = spec
	m.After(func() { m.folder.Put("web", m.service) })
}

// open opens a flow and asks until it takes the fast path.
func (m *machine) open(from *lab.Host, w daemon.Transport, to netip.AddrPort) *lab.Flow {
	m.t.Helper()
	f, err := from.Flow(w.Protocol, netip.AddrPort{}, to)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = f.Close() })
	for range entered {
		m.ask(f)
	}
	return f
}

func (m *machine) ask(f *lab.Flow) lab.Answer {
	m.t.Helper()
	a, err := f.Ask(answer)
	if err != nil {
		m.t.Fatal(err)
	}
	if a.Outcome != lab.Answered {
		m.t.Fatalf("%s, want an answer", a)
	}
	return a
}

// forwarded returns how many packets pass the hook forward while fn runs. Its table has the
// name of one of iptables, beside which the fast path stays on.
func (m *machine) forwarded(f model.Family, fn func()) (packets int) {
	m.t.Helper()
	family := [...]string{model.IPv4: "ip", model.IPv6: "ip6"}[f]
	m.nft(fmt.Sprintf("table %s filter { counter passing {}; chain FORWARD { type filter hook forward priority filter; counter name passing; }; }", family))
	fn()
	_, text, _ := strings.Cut(m.nft("list counter "+family+" filter passing"), "packets ")
	if _, err := fmt.Sscan(text, &packets); err != nil {
		m.t.Fatal(err)
	}
	m.nft("delete table " + family + " filter")
	return packets
}

// nft runs commands of nft on the node, and returns their output.
func (m *machine) nft(commands string) string {
	m.t.Helper()
	return labtest.Run(m.t, m.Node.Host, commands, "nft", "-f", "-")
}

// awaitDevices waits until the flowtable has all of the devices.
func (m *machine) awaitDevices(names ...string) {
	m.t.Helper()
	eventually.Succeeds(m.t, "the flowtable has the interfaces", func() error {
		all, err := flowtable.List(m.Node.FD())
		if err != nil || len(all) != 1 {
			return fmt.Errorf("not one flowtable: %+v, %w", all, err)
		}
		for _, name := range names {
			if !slices.Contains(all[0].Devices, name) && !hasEvery(&all[0]) {
				return fmt.Errorf("no %s among %q", name, all[0].Devices)
			}
		}
		return nil
	})
}

// hasEvery reports whether a flowtable has every interface (Linux 6.17).
func hasEvery(f *flowtable.Flowtable) bool { return slices.Equal(f.Devices, []string{"*"}) }

// expectTable checks whether the table of the fast path exists.
func (m *machine) expectTable(want bool) {
	m.t.Helper()
	if is := strings.Contains(m.nft("list tables"), flowtable.TableName()); is != want {
		m.t.Errorf("the table exists: %t, want %t", is, want)
	}
}

var errThere = errors.New("it is still there")
