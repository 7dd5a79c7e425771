package hold

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/conntrack"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// try is the time-out of one attempt over protocols that do not repeat packets here.
	try = 500 * time.Millisecond
	// patience is the time-out of a client of TCP, which repeats its first packet after 1 and 3 s.
	patience = time.Minute
)

// A scene is a Service that holds, with a server that is not its endpoint yet, and clients of all
// kinds.
type scene struct {
	*testing.T
	lab     *lab.Lab
	server  *lab.Host
	service daemon.Service
	folder  *daemon.Folder
	proxy   *daemon.Daemon
	kernel  *kernel.Kernel
}

func newScene(t *testing.T, hold time.Duration) *scene {
	t.Parallel()
	return newSceneIn(t, lab.Options{Pods: 2}, hold)
}

func newSceneIn(t *testing.T, o lab.Options, hold time.Duration, flags ...string) *scene {
	t.Helper()
	l := labtest.New(t, o)
	daemon.RouteServices(t, l, l.Node)
	servers := daemon.Serve(t, 1, l.Pods...)
	f := daemon.NewFolder(t, l)
	s := &scene{
		T: t, lab: l, server: servers[0], folder: f,
		service: daemon.Service{Name: "web", Number: 1, Kinds: daemon.Kinds, Hold: hold},
	}
	f.Put("web", s.service)
	s.proxy, s.kernel = daemon.Start(t, l.Node, f, flags...), labtest.Kernel(t, l.Node.Host)
	return s
}

// A client connects to one frontend over one transport.
type client struct {
	host *lab.Host
	kind model.Kind
	daemon.Transport
}

func (c client) String() string {
	return fmt.Sprintf("%s to %s over %s", c.host.Name, c.kind, c.Transport)
}

// clients are a pod, the node and a host outside, each at every frontend over every transport.
func (s *scene) clients() (all []client) {
	for _, h := range []*lab.Host{s.lab.Pods[1].Host, s.lab.Node.Host, s.lab.Outside} {
		for _, k := range daemon.Kinds {
			for _, w := range daemon.Transports() {
				all = append(all, client{h, k, w})
			}
		}
	}
	return all
}

func (s *scene) ask(c client, timeout time.Duration) (lab.Answer, error) {
	return c.host.AskFresh(c.Protocol, netip.Addr{}, s.service.AddrPort(s.lab.Node, c.Family, c.kind, 0), timeout)
}

// untilAnswered asks until a server replies: TCP once, since its client repeats packets. No attempt
// may be refused.
func (s *scene) untilAnswered(c client) error {
	timeout := patience
	if c.Protocol != model.TCP {
		timeout = try
	}
	for {
		a, err := s.ask(c, timeout)
		switch {
		case err != nil || a.Outcome == lab.Answered && a.By == s.server.Name:
			return err
		case a.Outcome != lab.TimedOut || c.Protocol == model.TCP:
			return fmt.Errorf("%s: %s", c, a)
		case s.Context().Err() != nil:
			return s.Context().Err()
		}
	}
}

// waiting counts the clients that the kernel has recorded.
func (s *scene) waiting() (n int) {
	for _, f := range model.Families {
		id := nft.SetID{Family: f, Kind: nft.SetWaiting}
		if err := s.kernel.Clients(id, func(nft.Client) { n++ }); err != nil {
			s.Fatal(err)
		}
	}
	return n
}

// TestConnectionsWaitForEndpoint has pods with their own links to the node, and pods on a bridge.
func TestConnectionsWaitForEndpoint(t *testing.T) {
	for _, bridge := range []bool{false, true} {
		t.Run(fmt.Sprint("bridge=", bridge), func(t *testing.T) {
			t.Parallel()
			if err := lab.MissingBridge(); bridge && err != nil {
				labtest.Lacking(t, err)
			}
			s := newSceneIn(t, lab.Options{Pods: 2, Bridge: bridge}, 10*time.Minute)
			for _, f := range model.Families {
				if bridge { // packets to an address of the node pass other hooks, too
					addr := s.service.Addr(f, model.KindExternalIP)
					labtest.Run(t, s.lab.Node.Host, "", "ip", "addr", "add", addr.String(), "dev", "lo")
				}
			}
			s.waitForEndpoint()
		})
	}
}

// untracked checks that connection tracking of the node has no packet to the Service.
func (s *scene) untracked() {
	s.Helper()
	to := map[netip.AddrPort]bool{}
	for _, c := range s.clients() {
		to[s.service.AddrPort(s.lab.Node, c.Family, c.kind, 0)] = true
	}
	err := conntrack.New(conntrack.Config{NetNS: s.lab.Node.FD()}).Each(func() {}, func(e conntrack.Entry) {
		if to[e.Original] {
			s.Errorf("connection tracking has %s %s > %s, %s", e.Protocol, e.Client, e.Original, e.State)
		}
	})
	if err != nil {
		s.Fatal(err)
	}
}

// translated counts connections of TCP that are translated, and have a reply or not.
func (s *scene) translated(replied bool) (n int) {
	s.Helper()
	tracking := conntrack.New(conntrack.Config{NetNS: s.lab.Node.FD()})
	err := tracking.EachTranslated(func() { n = 0 }, func(e conntrack.Entry) {
		if e.Protocol == model.TCP && e.Replied == replied {
			n++
		}
	})
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// waitForEndpoint has clients of all kinds wait, over a restart of kube-vmap, until there is an
// endpoint.
func (s *scene) waitForEndpoint() {
	var group errgroup.Group
	recorded := map[string]bool{}
	for _, c := range s.clients() {
		to := s.service.AddrPort(s.lab.Node, c.Family, c.kind, 0)
		recorded[fmt.Sprint(c.host.Name, to, c.Protocol)] = true
		group.Go(func() error { return s.untilAnswered(c) })
	}
	eventually.Holds(s, "every client is recorded", func() bool { return s.waiting() >= len(recorded) })
	s.untracked()
	s.proxy.Kill()
	s.proxy = daemon.Start(s, s.lab.Node, s.folder)
	<-time.After(2 * try) // clients send again
	s.untracked()
	daemon.Shows(s, s.lab.Node.Host, "problems --observe 0", "Held", "clients wait for an endpoint since")
	daemon.Shows(s, s.lab.Node.Host, "get services", "Held")
	daemon.Shows(s, s.lab.Node.Host, "get frontends", "Hold")
	for _, f := range model.Families {
		daemon.Shows(s, s.lab.Node.Host, fmt.Sprintf("explain --from %s --to %s", s.lab.Pods[1].Addr(f), s.service.ClusterAddrPort(f)),
			"dropped", "holds connections until there is one")
	}
	s.service.Endpoints = []*lab.Host{s.server}
	s.folder.Put("web", s.service)
	if err := group.Wait(); err != nil {
		s.Fatal(err)
	}
	daemon.Shows(s, s.lab.Node.Host, "problems --observe 0", "0 problems, 0 notices")
}

// TestConnectionsAreRejectedAfterHold has an outage that lasts longer than the hold, and another one.
func TestConnectionsAreRejectedAfterHold(t *testing.T) {
	s := newScene(t, time.Second)
	all := s.clients()
	s.proxy.Ignore("connections no longer held")
	each := func(want lab.Outcome) {
		t.Helper()
		var group errgroup.Group
		for _, c := range all {
			group.Go(func() error {
				return eventually.Try(t.Context(), func() error {
					a, err := s.ask(c, try)
					if err == nil && a.Outcome != want {
						err = fmt.Errorf("%s: %s, want %s", c, a, want)
					}
					return err
				})
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	each(lab.Refused)
	s.service.Endpoints = []*lab.Host{s.server}
	s.folder.Put("web", s.service)
	each(lab.Answered)
	s.service.Endpoints = nil
	s.folder.Put("web", s.service)
	each(lab.TimedOut)
	each(lab.Refused)
}

// TestEstablishedConnectionsAreNotHeld has the only endpoint of established connections removed.
func TestEstablishedConnectionsAreNotHeld(t *testing.T) {
	t.Parallel()
	s := newSceneIn(t, lab.Options{Pods: 2}, 10*time.Minute, "--end-tcp-flows")
	s.service.Endpoints = []*lab.Host{s.server}
	s.proxy.After(func() { s.folder.Put("web", s.service) })
	var flows []*lab.Flow
	ask := func(f *lab.Flow, want lab.Outcome) {
		t.Helper()
		if a, err := f.Ask(patience); err != nil || a.Outcome != want {
			t.Errorf("%s, %v, want %s", a, err, want)
		}
	}
	for _, c := range s.clients() {
		if c.Protocol != model.TCP {
			continue
		}
		flow, err := c.host.Flow(c.Protocol, netip.AddrPort{}, s.service.AddrPort(s.lab.Node, c.Family, c.kind, 0))
		if err != nil {
			t.Fatal(err)
		}
		ask(flow, lab.Answered)
		flows = append(flows, flow)
	}
	s.service.Endpoints = nil
	s.proxy.After(func() { s.folder.Put("web", s.service) })
	eventually.Holds(t, "flows to it are ended", func() bool { return s.translated(true) == 0 })
	for _, f := range flows {
		ask(f, lab.Reset)
	}
	if n := s.waiting(); n > 0 {
		t.Errorf("%d clients wait", n)
	}
}

// TestRestartOfOnlyReplica has clients connect 50 times a second while the only endpoint is
// restarted, with a hold and without one.
func TestRestartOfOnlyReplica(t *testing.T) {
	for _, hold := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint("hold=", hold), func(t *testing.T) {
			s := newScene(t, hold)
			set := func(endpoints ...*lab.Host) {
				s.service.Endpoints = endpoints
				s.proxy.After(func() { s.folder.Put("web", s.service) })
			}
			set(s.server)
			var outcomes [lab.Reset + 1]atomic.Int32
			var clients sync.WaitGroup
			connect := func() {
				for _, f := range model.Families {
					clients.Go(func() {
						a, err := s.ask(client{s.lab.Outside, model.KindClusterIP, daemon.Transport{Family: f, Protocol: model.TCP}}, patience)
						if err != nil {
							t.Error(err)
						}
						outcomes[a.Outcome].Add(1)
					})
				}
			}
			load := func(connections int) {
				for range connections {
					connect()
					<-time.After(20 * time.Millisecond)
				}
			}
			load(10)
			set()
			load(50)
			set(s.server)
			load(10)
			clients.Wait()
			answered, refused := outcomes[lab.Answered].Load(), outcomes[lab.Refused].Load()
			t.Logf("%d answered, %d refused", answered, refused)
			if all := int32(70 * len(model.Families)); answered+refused != all || (refused > 0) != (hold == 0) {
				t.Errorf("%d of %d connections answered, %d refused", answered, all, refused)
			}
		})
	}
}

// TestAttemptsToLostEndpointWait has clients whose first packets went to an endpoint that replies to
// nothing, and is then removed: they wait as others do, and reach the next endpoint.
func TestAttemptsToLostEndpointWait(t *testing.T) {
	s := newScene(t, 10*time.Minute)
	lost, next := s.lab.Pods[0].Host, s.lab.Pods[1].Host
	set := func(endpoints ...*lab.Host) {
		s.service.Endpoints = endpoints
		s.proxy.After(func() { s.folder.Put("web", s.service) })
	}
	set(lost)
	labtest.Run(t, lost, "", "nft", "add table inet lost; add chain inet lost input { type filter hook input priority -300; "+
		"policy drop; }; add rule inet lost input icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept")
	var group errgroup.Group
	attempts := 0
	for _, c := range s.clients() {
		if c.Protocol != model.TCP || c.host == next {
			continue // others do not send again here
		}
		attempts++
		group.Go(func() error {
			a, err := s.ask(c, patience)
			if err == nil && (a.Outcome != lab.Answered || a.By != next.Name) {
				err = fmt.Errorf("%s: %s", c, a)
			}
			return err
		})
	}
	eventually.Holds(t, "first packets have left", func() bool { return s.translated(false) >= attempts })
	set()
	eventually.Holds(t, "every client waits", func() bool { return s.waiting() >= attempts/2 })
	set(next)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestDemandIsCountedAtTheEndpoint has clients that reach an endpoint by its Service, on its node and on
// another one, and directly; the endpoint's node, as the kubelet does; and a client that a policy denies.
func TestDemandIsCountedAtTheEndpoint(t *testing.T) {
	t.Parallel()
	s := newSceneIn(t, lab.Options{Pods: 2, RemotePods: 1}, time.Minute)
	s.service.Endpoints = []*lab.Host{s.server}
	s.service.Edit = func(o *corev1.Service) { o.Annotations["kube-vmap.io/scale-to-zero"] = "true" }
	s.proxy.After(func() { s.folder.Put("web", s.service) })
	daemon.Start(t, s.lab.Remote, s.folder)
	denied, remote := s.lab.Pods[1].Host, s.lab.RemotePods[0].Host
	rules := "add table inet policies; add chain inet policies input { type filter hook input priority -300; };"
	for _, f := range model.Families {
		rules += fmt.Sprintf("add rule inet policies input %s saddr %s drop;", nft.FamilyName(f), denied.Addr(f))
	}
	labtest.Run(t, s.server, "", "nft", rules)
	served := 0
	var short []*lab.Flow // those that connection tracking soon forgets
	for _, w := range daemon.Transports() {
		clusterIP, pod := s.service.ClusterAddrPort(w.Family), s.server.AddrPort(w.Family, daemon.TargetPort)
		for _, c := range []struct {
			host   *lab.Host
			to     netip.AddrPort
			counts int
		}{
			{s.lab.Outside, clusterIP, 1},
			{remote, clusterIP, 1},
			{remote, pod, 1},
			{s.lab.Node.Host, clusterIP, 1},
			{s.lab.Node.Host, pod, 0},
			{denied, clusterIP, -1},
		} {
			flow, err := c.host.Flow(w.Protocol, netip.AddrPort{}, c.to)
			if err == nil {
				a, failed := flow.Ask(map[bool]time.Duration{false: try, true: patience}[c.counts >= 0])
				if err = failed; err == nil && (a.Outcome == lab.Answered) != (c.counts >= 0) {
					err = fmt.Errorf("%s to %s over %s: %s", c.host.Name, c.to, w, a)
				}
			}
			if err != nil && c.counts >= 0 {
				t.Fatal(err)
			}
			if served += max(c.counts, 0); w.Protocol != model.TCP && c.counts > 0 {
				short = append(short, flow)
			}
		}
	}
	demand := func(n *lab.Node) (value int) {
		page, err := n.Get("http://127.0.0.1:10249/metrics", patience)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(page, "\nkubevmap_service_demand{")
		_, _ = fmt.Sscanf(rest, `service_name="web",service_namespace="default"} %d`, &value)
		return value
	}
	eventually.Holds(t, fmt.Sprint("the node has a demand of ", served), func() bool { return demand(s.lab.Node) == served })
	if n := demand(s.lab.Remote); n > 0 {
		t.Errorf("the node of a client has a demand of %d", n)
	}
	tcp := served / len(model.Protocols) // they are idle for as long as the timeout was changed by
	labtest.Run(t, s.lab.Node.Host, "", "sysctl", "-w", "net.netfilter.nf_conntrack_tcp_timeout_established=90000")
	eventually.Holds(t, "idle clients make no demand", func() bool {
		for _, flow := range short {
			if a, err := flow.Ask(patience); err != nil || a.Outcome != lab.Answered {
				t.Errorf("%s, %v", a, err)
			}
		}
		return demand(s.lab.Node) == served-tcp
	})
}
