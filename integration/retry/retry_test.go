package retry

import (
	"encoding/binary"
	"fmt"
	"log"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/socket"
)

// program is the argument with which this program is one of a pod.
const program = "serve"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == program {
		serve(os.Args[2])
	}
	os.Exit(daemon.Main(m))
}

// serve replies as servers of the lab do, until it is killed.
func serve(name string) {
	l, err := net.Listen("tcp", fmt.Sprint(":", daemon.TargetPort))
	for err == nil {
		var c net.Conn
		if c, err = l.Accept(); err == nil {
			var request int
			_, _ = fmt.Fscanln(c, &request)
			_, _ = fmt.Fprintln(c, request, name, c.RemoteAddr())
			_ = c.Close()
		}
	}
	log.Fatal(err)
}

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

func newScene(t *testing.T, o lab.Options, service daemon.Service, flags ...string) *scene {
	t.Helper()
	l := labtest.New(t, o)
	daemon.RouteServices(t, l, l.Node)
	daemon.AddClients(t, l)
	f := daemon.NewFolder(t, l)
	service.Name, service.Number, service.Kinds = "web", 1, daemon.Kinds
	s := &scene{T: t, lab: l, service: service, folder: f}
	f.Put("web", s.service)
	s.proxy = daemon.Start(t, l.Node, f, flags...)
	s.kernel = labtest.Kernel(t, l.Node.Host)
	return s
}

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

func (s *scene) ask(c client, from netip.Addr, timeout time.Duration) (lab.Answer, error) {
	return c.host.AskFresh(model.TCP, from, s.service.AddrPort(s.lab.Node, c.f, c.kind, 0), timeout)
}

// outcomes count connections that failed.
type outcomes struct{ refused, otherwise atomic.Int32 }

// connect connects once, in the background.
func (s *scene) connect(group *errgroup.Group, c client, o *outcomes) {
	group.Go(func() error {
		a, err := s.ask(c, netip.Addr{}, patience)
		switch a.Outcome {
		case lab.Answered:
		case lab.Refused:
			o.refused.Add(1)
		default:
			o.otherwise.Add(1)
		}
		return err
	})
}

// check expects that some were refused, unless the Service retries.
func (o *outcomes) check(t *testing.T, retries bool) {
	t.Helper()
	refused, otherwise := o.refused.Load(), o.otherwise.Load()
	if t.Logf("%d connections refused", refused); (refused > 0) == retries || otherwise > 0 {
		t.Errorf("%d connections refused, %d failed otherwise", refused, otherwise)
	}
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
				RetryRefused: true, LocalOutside: p.local, LocalInside: p.local,
			})
			server := daemon.Serve(t, 1, s.lab.Pods[0])[0]
			s.set(p.of(s.lab))
			var group errgroup.Group
			// The second pod is the one that refuses, in some cases.
			all := clients(s.lab.Pods[2].Host, s.lab.Pods[1].Host, s.lab.Node.Host, s.lab.Outside)
			for _, c := range all {
				group.Go(func() error {
					a, err := s.ask(c, netip.Addr{}, patience)
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

// TestThreeRetries has one endpoint, which refuses, and a Service that does not retry.
func TestThreeRetries(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Options{Pods: 2}, daemon.Service{RetryRefused: true})
	s.set(s.lab.Pods[0].Host)
	other := daemon.Service{Name: "other", Number: 2, Kinds: daemon.Kinds, Endpoints: s.service.Endpoints}
	s.proxy.After(func() { s.folder.Put("other", other) })
	var group errgroup.Group
	all := clients(s.lab.Pods[1].Host, s.lab.Node.Host, s.lab.Outside)
	for _, c := range all {
		group.Go(func() error {
			a, err := s.ask(c, netip.Addr{}, patience)
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
	page, err := s.lab.Node.Get("http://127.0.0.1:10249/metrics", patience)
	if line := `service_refusals_total{ip_family="IPv4",outcome="retried",port="tcp-0",protocol="TCP",service_name="web"`; err != nil ||
		!strings.Contains(page, line) {
		t.Errorf("%v, no %s", err, line)
	}
	commands := []string{"problems --observe 4s"}
	for _, f := range model.Families {
		commands = append(commands, fmt.Sprintf("explain --observe 4s --from %s --to %s", s.lab.Pods[1].Addr(f), s.service.ClusterAddrPort(f)))
	}
	for _, command := range commands {
		for _, c := range clients(s.lab.Outside) {
			group.Go(func() error { _, err := s.ask(c, netip.Addr{}, patience); return err })
		}
		daemon.Shows(s, s.lab.Node.Host, command, "answers with a reset", "connections are retried: no program listens on port 8080")
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// number returns the number by which the rule set has an endpoint, as nft prints it.
func (s *scene) number(endpoint netip.AddrPort) string {
	s.Helper()
	of := regexp.MustCompile(fmt.Sprintf(`([0-9a-f]+:[0-9a-f]+) : %s \. %d`, endpoint.Addr(), endpoint.Port()))
	list := labtest.Run(s, s.lab.Node.Host, "", "nft", "list", "table "+nft.FamilyName(model.FamilyOf(endpoint.Addr()))+" kube-vmap")
	return of.FindStringSubmatch(list)[1]
}

// keep has the endpoint of a number as the one that has just accepted at a frontend, for an hour.
func (s *scene) keep(to netip.AddrPort, number string) {
	s.Helper()
	text := fmt.Sprintf("flush map %s kube-vmap accepted; add element %[1]s kube-vmap accepted { %d . %s timeout 1h : %s }",
		nft.FamilyName(model.FamilyOf(to.Addr())), to.Port(), to.Addr(), number)
	labtest.Run(s, s.lab.Node.Host, text, "nft", "-f", "-")
}

// accepted returns the set of endpoints that have just accepted. nft takes longer to list it than an
// element lasts, on a busy machine.
func (s *scene) accepted(f model.Family) *simulate.Set {
	s.Helper()
	conn, err := socket.Open(s.lab.Node.FD())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	set, err := dump.NewReader(conn).Set(simulate.Table{Family: nft.FamilyName(f), Name: nft.TableName()}, "accepted")
	if err != nil {
		s.Fatal(err)
	}
	return set
}

// TestRetryMeetsWhoAccepts has three endpoints of four refuse. The map gets the number of the fourth when
// that accepts, and then keeps it: each client is refused once at most.
func TestRetryMeetsWhoAccepts(t *testing.T) {
	for name, service := range map[string]daemon.Service{
		"random": {}, "rr": {Scheduler: "rr"}, "sh": {Scheduler: "sh"}, "mh": {Scheduler: "mh"}, "local": {LocalOutside: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service.RetryRefused, service.Times = true, 4
			s := newScene(t, lab.Options{Pods: 1}, service, "--protect-tables=false")
			s.set(daemon.Serve(t, 1, s.lab.Pods...)...)
			for _, f := range model.Families {
				number, accepted := s.number(s.lab.Pods[0].AddrPort(f, daemon.TargetPort)), s.accepted(f)
				for _, c := range clients(s.lab.Outside) {
					if c.f == f {
						s.meetWhoAccepts(c, number, accepted)
					}
				}
			}
		})
	}
}

func (s *scene) meetWhoAccepts(c client, number string, accepted *simulate.Set) {
	s.Helper()
	const clients = 50
	to := s.service.AddrPort(s.lab.Node, c.f, c.kind, 0)
	key := slices.Concat(binary.BigEndian.AppendUint16(nil, to.Port()), []byte{0, 0}, to.Addr().AsSlice())
	eventually.Holds(s, fmt.Sprint(c, " is accepted"), func() bool {
		from := daemon.ClientAddr(c.f, int(s.lab.Outside.FreshPort())%clients)
		if _, err := s.ask(c, from, 100*time.Millisecond); err != nil {
			s.Fatal(err)
		}
		e, found, err := accepted.Find(key)
		if err != nil {
			s.Fatal(err)
		}
		return found && nft.ClassID(binary.NativeEndian.Uint32(e.Data)) == number
	})
	s.keep(to, number)
	refused, _ := s.counts()
	var group errgroup.Group
	for n := range clients {
		group.Go(func() error {
			a, err := s.ask(c, daemon.ClientAddr(c.f, n), patience)
			if err == nil && a.Outcome != lab.Answered {
				err = fmt.Errorf("client %d at %s: %s after %s", n, c, a, a.Took)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		s.Error(err)
	}
	if after, _ := s.counts(); after == refused || after > refused+clients {
		s.Errorf("%d clients at %s were refused %d times", clients, c, after-refused)
	}
}

// TestRetryMeetsAnotherEndpoint has one endpoint of 16 refuse, with affinity, for which retries are at
// random. All four attempts of a client meet it in one of 65,536 cases, of three clients in less than one
// run of a million.
func TestRetryMeetsAnotherEndpoint(t *testing.T) {
	const ports, clients = 16, 100
	for name, service := range map[string]daemon.Service{
		"affinity": {Affinity: 3 * time.Hour}, "affinity-local": {Affinity: time.Minute, LocalOutside: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service.Times, service.RetryRefused = ports, true
			s := newScene(t, lab.Options{Pods: 1}, service)
			s.set(daemon.Serve(t, ports-1, s.lab.Pods...)...)
			var unlucky atomic.Int32
			for _, k := range daemon.Kinds {
				var group errgroup.Group
				for _, f := range model.Families {
					for n := range clients {
						group.Go(func() error {
							a, err := s.ask(client{s.lab.Outside, k, f}, daemon.ClientAddr(f, n), patience)
							if err == nil && a.Outcome == lab.Refused && a.Took > 3*time.Second && unlucky.Add(1) < 3 {
								return nil
							}
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
			}
		})
	}
}

// TestRetryMeetsNoRemovedEndpoint removes the only endpoint that accepts. The map keeps its number.
func TestRetryMeetsNoRemovedEndpoint(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Options{Pods: 3}, daemon.Service{RetryRefused: true}, "--protect-tables=false")
	s.set(daemon.Serve(t, 1, s.lab.Pods[0])[0], s.lab.Pods[1].Host)
	for _, f := range model.Families {
		s.keep(s.service.ClusterAddrPort(f), s.number(s.lab.Pods[0].AddrPort(f, daemon.TargetPort)))
	}
	s.set(s.lab.Pods[1].Host, s.lab.Pods[2].Host)
	var group errgroup.Group
	var o outcomes
	for _, f := range model.Families {
		for range 50 {
			s.connect(&group, client{s.lab.Outside, model.KindClusterIP, f}, &o)
		}
	}
	if err := group.Wait(); err != nil || o.refused.Load() != 100 {
		t.Fatalf("%v, %d of 100 connections refused without an endpoint that accepts", err, o.refused.Load())
	}
}

// TestManyRefusalsAreLimited has more refusals of one Service than it may have retried, while another
// one has few.
func TestManyRefusalsAreLimited(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Options{Pods: 1}, daemon.Service{RetryRefused: true})
	s.set(s.lab.Pods[0].Host)
	other := daemon.Service{Name: "other", Number: 2, RetryRefused: true, Endpoints: s.service.Endpoints}
	s.proxy.After(func() { s.folder.Put("other", other) })
	for _, f := range model.Families {
		burst := lab.Burst{Protocol: model.TCP, To: s.service.ClusterAddrPort(f), Count: 8000, Workers: 40, Timeout: 5 * time.Millisecond}
		tally, err := s.lab.Outside.Burst(burst)
		if err != nil || tally.Refused == 0 || tally.TimedOut < 1000 {
			t.Errorf("over %s %d attempts refused, %d timed out: %v", f, tally.Refused, tally.TimedOut, err)
		}
		a, err := s.lab.Outside.AskFresh(model.TCP, netip.Addr{}, other.ClusterAddrPort(f), patience)
		if err != nil || a.Outcome != lab.Refused || a.Took < 3*time.Second {
			t.Errorf("the other Service over %s: %s after %s, %v", f, a, a.Took, err)
		}
	}
}

// TestAnswersOfPolicies has rules of another program on the node, for a client each. A reset looks like
// one of the endpoint; ICMP errors reach the client.
func TestAnswersOfPolicies(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Options{Pods: 1}, daemon.Service{RetryRefused: true})
	s.set(daemon.Serve(t, 1, s.lab.Pods...)...)
	answers := map[netip.Addr]string{}
	rules := "add table inet policies; add chain inet policies answers { type filter hook forward priority 0; };"
	for f, list := range [...][]string{
		model.IPv4: {"tcp reset", "icmp type net-prohibited", "icmp type host-prohibited", "icmp type admin-prohibited", "icmp type host-unreachable"},
		model.IPv6: {"tcp reset", "icmpv6 type admin-prohibited", "icmpv6 type policy-fail", "icmpv6 type reject-route", "icmpv6 type addr-unreachable"},
	} {
		for n, answer := range list {
			from := daemon.ClientAddr(model.Family(f), n)
			answers[from] = answer
			rules += fmt.Sprintf("add rule inet policies answers %s saddr %s meta l4proto tcp reject with %s;",
				nft.FamilyName(model.Family(f)), from, answer)
		}
	}
	labtest.Run(t, s.lab.Node.Host, "", "nft", rules)
	var group errgroup.Group
	for from, answer := range answers {
		group.Go(func() error {
			a, err := s.ask(client{s.lab.Outside, model.KindClusterIP, model.FamilyOf(from)}, from, patience)
			want := lab.Unreachable
			if answer == "tcp reset" {
				want = lab.Refused
			}
			if err == nil && (a.Outcome != want || (a.Took > 3*time.Second) != (want == lab.Refused)) {
				err = fmt.Errorf("%s of a policy for %s: %s after %s", answer, from, a, a.Took)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if refused, retried := s.counts(); refused != 8 || retried != 6 {
		t.Errorf("%d refusals, %d retried", refused, retried)
	}
}

// TestFullSetRetriesAtRandom fills the set as other Services would. Each client sends three or four times
// within its time-out.
func TestFullSetRetriesAtRandom(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Options{Pods: 1}, daemon.Service{RetryRefused: true}, "--protect-tables=false")
	s.set(s.lab.Pods[0].Host)
	for _, f := range model.Families {
		var fill strings.Builder
		for n := range nft.MaxRetrying {
			if n%1024 == 0 {
				fmt.Fprintf(&fill, "}\nadd element %s kube-vmap retrying { ", nft.FamilyName(f))
			}
			fmt.Fprintf(&fill, [...]string{
				model.IPv4: "10.%d.%d.%d . 1 . 10.0.0.1 . 1 . f000:0 timeout 1h,", model.IPv6: "fd00::%x:%x:%x . 1 . fd00::1 . 1 . f000:0 timeout 1h,",
			}[f], n>>16, n>>8&0xff, n&0xff)
		}
		labtest.Run(t, s.lab.Node.Host, strings.TrimPrefix(fill.String(), "}")+"}", "nft", "-f", "-")
		const clients, timeout = 64, 3500 * time.Millisecond
		before, beforeRetried := s.counts()
		var group errgroup.Group
		for range clients {
			group.Go(func() error {
				a, err := s.lab.Outside.AskFresh(model.TCP, netip.Addr{}, s.service.ClusterAddrPort(f), timeout)
				if err == nil && a.Outcome != lab.Refused && a.Outcome != lab.TimedOut {
					err = fmt.Errorf("over %s %s", f, a)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		refused, retried := s.counts()
		if refused, retried = refused-before, retried-beforeRetried; retried < clients/2 || refused-retried < clients/8 {
			t.Errorf("over %s %d refusals, %d retried", f, refused, retried)
		}
	}
}

// TestKilledProgram has two pods, whose programs are killed in turns, and start again when they have
// refused.
func TestKilledProgram(t *testing.T) {
	const kills, connections = 6, 32
	for _, retries := range []bool{false, true} {
		t.Run(fmt.Sprint("retries=", retries), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, lab.Options{Pods: 2}, daemon.Service{RetryRefused: retries})
			start := func(p *lab.Pod) *lab.Cmd {
				c := p.Command(t.Context(), os.Args[0], program, p.Name)
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				eventually.Holds(t, "it listens", func() bool {
					a, err := s.lab.Node.Ask(model.TCP, p.AddrPort(model.IPv4, daemon.TargetPort), patience)
					return err == nil && a.Outcome == lab.Answered
				})
				return c
			}
			kill := func(c *lab.Cmd) {
				if err := c.Process.Kill(); err != nil {
					t.Error(err)
				}
				_ = c.Wait()
			}
			programs := []*lab.Cmd{start(s.lab.Pods[0]), start(s.lab.Pods[1])}
			s.set(s.lab.Pods[0].Host, s.lab.Pods[1].Host)
			var o outcomes
			all := clients(s.lab.Outside, s.lab.Node.Host)
			for n := range kills {
				kill(programs[n%2])
				_, before := s.counts()
				var group errgroup.Group
				for i := range connections {
					s.connect(&group, all[i%len(all)], &o)
				}
				eventually.Holds(t, "a connection is refused", func() bool {
					_, retried := s.counts()
					return retried > before || o.refused.Load() > 0
				})
				programs[n%2] = start(s.lab.Pods[n%2])
				if err := group.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			o.check(t, retries)
			kill(programs[0])
			kill(programs[1])
		})
	}
}

// TestEstablishedConnectionsAreReset has a server that ends, with its connections.
func TestEstablishedConnectionsAreReset(t *testing.T) {
	t.Parallel()
	s := newScene(t, lab.Options{Pods: 2}, daemon.Service{RetryRefused: true})
	server, err := s.lab.Pods[0].Serve(model.TCP, daemon.TargetPort)
	if err != nil {
		t.Fatal(err)
	}
	s.set(s.lab.Pods[0].Host)
	var flows []*lab.Flow
	for _, c := range clients(s.lab.Pods[0].Host, s.lab.Pods[1].Host, s.lab.Node.Host, s.lab.Outside) {
		flow, err := c.host.Flow(model.TCP, netip.AddrPort{}, s.service.AddrPort(s.lab.Node, c.f, c.kind, 0))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := flow.Ask(patience); err != nil || a.Outcome != lab.Answered {
			t.Errorf("%s: %s, %v", c, a, err)
		}
		flows = append(flows, flow)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	for _, flow := range flows {
		if a, err := flow.Ask(patience); err != nil || a.Outcome != lab.Reset || a.Took > time.Second {
			t.Errorf("%s after %s, %v", a, a.Took, err)
		}
	}
	if refused, _ := s.counts(); refused > 0 {
		t.Errorf("%d refusals", refused)
	}
}

// TestRolloutOfNaiveProgram replaces four of 16 pods, one by one, whose program ends before the pod is
// no longer an endpoint, and listens after it has become one.
func TestRolloutOfNaiveProgram(t *testing.T) {
	const pods, replaced, connections = 16, 4, 100
	for _, retries := range []bool{false, true} {
		t.Run(fmt.Sprint("retries=", retries), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, lab.Options{Pods: pods + replaced}, daemon.Service{RetryRefused: retries})
			serve := func(p *lab.Pod) *lab.Server {
				server, err := p.Serve(model.TCP, daemon.TargetPort)
				if err != nil {
					t.Fatal(err)
				}
				return server
			}
			var endpoints []*lab.Host
			var servers []*lab.Server
			for _, p := range s.lab.Pods[:pods] {
				endpoints, servers = append(endpoints, p.Host), append(servers, serve(p))
			}
			s.set(endpoints...)
			var group errgroup.Group
			var o outcomes
			load := func() {
				for n := range connections / replaced {
					s.connect(&group, clients(s.lab.Outside, s.lab.Node.Host)[n%8], &o)
					<-time.After(20 * time.Millisecond)
				}
			}
			for n := range replaced {
				if err := servers[n].Close(); err != nil {
					t.Fatal(err)
				}
				load()
				next := s.lab.Pods[pods+n]
				endpoints[n] = next.Host
				s.set(endpoints...)
				load()
				serve(next)
				load()
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			o.check(t, retries)
		})
	}
}
