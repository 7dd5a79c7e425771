package retry

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/kernel"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// patience is the time-out of a client, which sends its first packet again after 1, 2 and 3 s, or
// after 1, 3 and 7 s before Linux 6.5.
const patience = time.Minute

// A scene is a Service that retries, and clients of all kinds.
type scene struct {
	*testing.T
	lab     *lab.Lab
	service daemon.Service
	folder  *daemon.Folder
	proxy   *daemon.Daemon
	kernel  *kernel.Kernel
}

func newScene(t *testing.T, o lab.Options, service daemon.Service) *scene {
	t.Helper()
	l := labtest.New(t, o)
	daemon.RouteServices(t, l, l.Node)
	daemon.AddClients(t, l)
	f := daemon.NewFolder(t, l)
	service.Name, service.Number, service.Kinds, service.RetryRefused = "web", 1, daemon.Kinds, true
	s := &scene{T: t, lab: l, service: service, folder: f}
	f.Put("web", s.service)
	s.proxy, s.kernel = daemon.Start(t, l.Node, f), labtest.Kernel(t, l.Node.Host)
	return s
}

// set changes the endpoints.
func (s *scene) set(endpoints ...*lab.Host) {
	s.Helper()
	s.service.Endpoints = endpoints
	s.proxy.After(func() { s.folder.Put("web", s.service) })
}

// counts returns how many refusals there were, and how many of these were retried.
func (s *scene) counts() (refused, retried uint64) {
	s.Helper()
	for _, f := range model.Families {
		all, err := s.kernel.Refusals(f)
		if err != nil {
			s.Fatal(err)
		}
		for _, c := range all {
			refused, retried = refused+c.Refusals, retried+c.Retried
		}
	}
	return refused, retried
}

// A client connects to one frontend.
type client struct {
	host *lab.Host
	kind model.Kind
	f    model.Family
}

func (c client) String() string { return fmt.Sprintf("%s to %s over %s", c.host, c.kind, c.f) }

// clients are hosts, each at every frontend in both families.
func clients(hosts ...*lab.Host) (all []client) {
	for _, h := range hosts {
		for _, k := range daemon.Kinds {
			for _, f := range model.Families {
				all = append(all, client{h, k, f})
			}
		}
	}
	return all
}

func (s *scene) ask(c client, from netip.Addr) (lab.Answer, error) {
	return c.host.AskFresh(model.TCP, from, s.service.AddrPort(s.lab.Node, c.f, c.kind, 0), patience)
}

// TestRefusedConnectionsReachTheNextEndpoint has one endpoint, which refuses, and then another one.
func TestRefusedConnectionsReachTheNextEndpoint(t *testing.T) {
	type place struct {
		name   string
		bridge bool
		local  bool // policies
		of     func(*lab.Lab) *lab.Host
	}
	here := func(l *lab.Lab) *lab.Host { return l.Pods[1].Host }
	for _, p := range []place{
		{"pod", false, false, here},
		{"pod-local", false, true, here},
		{"pod-on-bridge", true, false, here},
		{"remote-pod", false, false, func(l *lab.Lab) *lab.Host { return l.RemotePods[0].Host }},
		{"node", false, false, func(l *lab.Lab) *lab.Host { return l.Node.Host }},
		{"remote-node", false, false, func(l *lab.Lab) *lab.Host { return l.Remote.Host }},
	} {
		t.Run(p.name, func(t *testing.T) {
			if err := lab.MissingBridge(); p.bridge && err != nil {
				labtest.Lacking(t, err)
			}
			t.Parallel()
			s := newScene(t, lab.Options{Pods: 3, RemotePods: 1, Bridge: p.bridge}, daemon.Service{
				LocalOutside: p.local, LocalInside: p.local,
			})
			server := daemon.Serve(t, 1, s.lab.Pods[0])[0]
			s.set(p.of(s.lab))
			var group errgroup.Group
			// The second pod is the one that refuses, in some cases.
			all := clients(s.lab.Pods[2].Host, s.lab.Pods[1].Host, s.lab.Node.Host, s.lab.Outside)
			for _, c := range all {
				group.Go(func() error {
					a, err := s.ask(c, netip.Addr{})
					if err == nil && (a.Outcome != lab.Answered || a.By != server.Name) {
						err = fmt.Errorf("%s: %s after %s", c, a, a.Took)
					}
					return err
				})
			}
			eventually.Holds(t, "every client is refused", func() bool { _, n := s.counts(); return n >= uint64(len(all)) })
			s.set(server)
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// shown checks what a command of the node prints.
func (s *scene) shown(command string, texts ...string) {
	s.Helper()
	out := daemon.Run(s, s.lab.Node.Host, strings.Fields(command)...)
	for _, text := range texts {
		if !strings.Contains(strings.Join(strings.Fields(out.Stdout), " "), text) {
			s.Errorf("kube-vmap %s does not say %q:\n%s", command, text, out)
		}
	}
}

// TestThreeRetries has one endpoint, which refuses, and a Service that does not retry.
func TestThreeRetries(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Options{Pods: 2}, daemon.Service{})
	s.set(s.lab.Pods[0].Host)
	other := daemon.Service{Name: "other", Number: 2, Kinds: daemon.Kinds, Endpoints: s.service.Endpoints}
	s.proxy.After(func() { s.folder.Put("other", other) })
	var group errgroup.Group
	all := clients(s.lab.Pods[1].Host, s.lab.Node.Host, s.lab.Outside)
	for _, c := range all {
		group.Go(func() error {
			a, err := s.ask(c, netip.Addr{})
			if err == nil && (a.Outcome != lab.Refused || a.Took < 3*time.Second || a.Took > 20*time.Second) {
				err = fmt.Errorf("%s: %s after %s", c, a, a.Took)
			}
			return err
		})
		group.Go(func() error {
			a, err := c.host.AskFresh(model.TCP, netip.Addr{}, other.AddrPort(s.lab.Node, c.f, c.kind, 0), patience)
			if err == nil && (a.Outcome != lab.Refused || a.Took > 500*time.Millisecond) {
				err = fmt.Errorf("%s, which does not retry: %s after %s", c, a, a.Took)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	n := uint64(len(all))
	if refused, retried := s.counts(); refused != 4*n || retried != 3*n {
		t.Errorf("%d refusals, %d retried, want %d, %d", refused, retried, 4*n, 3*n)
	}
}

// TestRetryMeetsAnotherEndpoint has one endpoint of 16 refuse, with affinity and with schedulers that
// would pick the same endpoint for a client again.
func TestRetryMeetsAnotherEndpoint(t *testing.T) {
	const ports, clients = 16, 100
	for name, service := range map[string]daemon.Service{
		"random": {}, "sh": {Scheduler: "sh"}, "mh": {Scheduler: "mh"}, "affinity": {Affinity: 3 * time.Hour},
		"affinity-local": {Affinity: time.Minute, LocalOutside: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service.Times = ports
			s := newScene(t, lab.Options{Pods: 1}, service)
			s.set(daemon.Serve(t, ports-1, s.lab.Pods...)...)
			for _, k := range daemon.Kinds {
				refused, _ := s.counts()
				var group errgroup.Group
				for _, f := range model.Families {
					for n := range clients {
						group.Go(func() error {
							a, err := s.ask(client{s.lab.Outside, k, f}, daemon.ClientAddr(f, n))
							if err == nil && a.Outcome != lab.Answered {
								err = fmt.Errorf("client %d at %s over %s: %s after %s", n, k, f, a, a.Took)
							}
							return err
						})
					}
				}
				if err := group.Wait(); err != nil {
					t.Error(err)
				}
				if after, _ := s.counts(); after == refused && service.Affinity == 0 {
					t.Errorf("none of %d clients at %s was refused", clients, k)
				}
			}
		})
	}
}
