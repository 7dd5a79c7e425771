package passivehealth

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is the time-out of a client's question.
	answer = 1500 * time.Millisecond
	// rounds is how many questions of each transport an avoided endpoint must not get.
	rounds = 40

	messageUnresponsive = "endpoint unresponsive"
	messageResponsive   = "endpoint responsive"
)

// A scene is a Service with an endpoint on node-1 and two on node-2, and clients outside.
type scene struct {
	t       *testing.T
	lab     *lab.Lab
	servers []*lab.Host
	service daemon.Service
	folder  *daemon.Folder
	proxy   *daemon.Daemon
}

func newScene(t *testing.T, flags ...string) *scene {
	t.Helper()
	t.Parallel()
	l, servers := daemon.NewLab(t, 1, 2)
	return newSceneOf(t, l, servers, flags...)
}

func newSceneOf(t *testing.T, l *lab.Lab, servers []*lab.Host, flags ...string) *scene {
	t.Helper()
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Kinds: daemon.Kinds}
	f.Put("web", s)
	sc := &scene{t, l, servers, s, f, daemon.Start(t, l.Node, f, flags...)}
	sc.proxy.Ignore(messageUnresponsive)
	return sc
}

func (s *scene) nft(h *lab.Host, commands string) {
	s.t.Helper()
	labtest.Run(s.t, h, "", "nft", commands)
}

// kill makes an endpoint drop all packets.
func (s *scene) kill(h *lab.Host) {
	s.t.Helper()
	s.nft(h, "add table inet dead; add chain inet dead input { type filter hook input priority -300; "+
		"policy drop; }; add rule inet dead input icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept")
}

// ask asks the Service once from a client outside; see askFrom.
func (s *scene) ask(w daemon.Transport, client int) (by string, err error) {
	return s.askFrom(s.lab.Outside, daemon.ClientAddr(w.Family, client), w)
}

// askFrom asks the Service once, and returns which endpoint answered; none if the question was not
// answered.
func (s *scene) askFrom(h *lab.Host, from netip.Addr, w daemon.Transport) (by string, err error) {
	to := s.service.AddrPort(s.lab.Node, w.Family, model.KindClusterIP, 0)
	a, err := h.AskFresh(w.Protocol, from, to, answer)
	if err != nil || a.Outcome != lab.Answered {
		return "", err
	}
	return a.By, nil
}

// traffic asks over all transports until stop is called.
func (s *scene) traffic() (stop func()) {
	s.t.Helper()
	return s.repeat(s.ask)
}

// repeat calls ask for all transports until stop is called.
func (s *scene) repeat(ask func(w daemon.Transport, client int) (string, error)) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	var group errgroup.Group
	for i, w := range daemon.Transports() {
		for k := range 2 { // so that one that waits does not stop all
			group.Go(func() error {
				for ctx.Err() == nil {
					if _, err := ask(w, 2*i+k); err != nil {
						s.t.Errorf("%s: %v", w, err) // at once: a test that waits for these questions would not end
						return nil
					}
				}
				return nil
			})
		}
	}
	return func() {
		cancel()
		_ = group.Wait()
	}
}

// awaitAll waits for a line with the message for each transport's endpoint on a host, and logs after
// how long it was written.
func (s *scene) awaitAll(message string, h *lab.Host) {
	s.t.Helper()
	start := time.Now()
	for _, w := range daemon.Transports() {
		at := netip.AddrPortFrom(h.Addr(w.Family), daemon.TargetPort).String()
		line := s.proxy.Logged(0, message, func(e process.Entry) bool {
			return e["endpoint"] == at && e["protocol"] == w.Protocol.String()
		})
		written, err := time.Parse(time.RFC3339Nano, line["time"])
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Logf("%s: %q after %s", w, message, written.Sub(start))
	}
}

func TestUnresponsiveEndpointGetsNoConnectionsUntilItReplies(t *testing.T) {
	s := newScene(t, "--passive-health-checks=avoid")
	dead := s.servers[2]
	stop := s.traffic()
	s.awaitEach(dead)
	s.verified()
	s.kill(dead)
	s.awaitAll(messageUnresponsive, dead)
	stop()
	s.checkShown(dead)
	var group errgroup.Group
	for i, w := range daemon.Transports() {
		group.Go(func() error {
			for range rounds {
				by, err := s.ask(w, i)
				if err != nil {
					return err
				}
				if by == "" {
					t.Errorf("%s: a question was not answered although the endpoint is avoided", w)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	s.nft(dead, "delete table inet dead")
	s.awaitAll(messageResponsive, dead)
	s.awaitEach(dead)
}

// checkShown checks that commands name the avoided endpoint on a host.
func (s *scene) checkShown(h *lab.Host) {
	s.t.Helper()
	problems := daemon.Run(s.t, s.lab.Node.Host, "problems", "--observe", "0").Stdout
	problems = strings.ReplaceAll(problems, "\n    ", " ") // one line for each
	endpoints := daemon.Run(s.t, s.lab.Node.Host, "get", "endpoints", "-A").Stdout
	diff := daemon.Run(s.t, s.lab.Node.Host, "diff", "--manifests", s.folder.Dir(), "--hostname-override", s.lab.Node.Name)
	if diff.ExitCode != 1 || !strings.Contains(diff.Stderr, "6 unresponsive endpoints") {
		s.t.Errorf("diff ends with %d and prints %s", diff.ExitCode, diff.Stderr)
	}
	for _, w := range daemon.Transports() {
		at := netip.AddrPortFrom(h.Addr(w.Family), daemon.TargetPort).String() + "/" + w.Protocol.String()
		for text, want := range map[string][]string{
			problems: {"EndpointUnresponsive", at, "probes since ", "; new connections avoid it"}, endpoints: {at, "Avoided"},
		} {
			if !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
				return !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(line, part) })
			}) {
				s.t.Errorf("no line with %q:\n%s", want, text)
			}
		}
	}
}

// awaitEach asks over each transport until this endpoint answers.
func (s *scene) awaitEach(h *lab.Host) {
	s.t.Helper()
	for i, w := range daemon.Transports() {
		for by := ""; by != h.Name; {
			var err error
			if by, err = s.ask(w, 50+i); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func TestReportOnlyReports(t *testing.T) {
	s := newScene(t, "--passive-health-checks=report")
	dead := s.servers[2]
	stop := s.traffic()
	s.awaitEach(dead)
	before := s.proxy.CountMessages("applied")
	s.verified()
	s.kill(dead)
	s.awaitAll(messageUnresponsive, dead)
	s.nft(dead, "delete table inet dead")
	s.awaitAll(messageResponsive, dead)
	stop()
	if n := s.proxy.CountMessages("applied"); n != before {
		t.Errorf("%d changes were applied", n-before)
	}
}

// verified waits until probes of the node have reached each endpoint.
func (s *scene) verified() {
	s.t.Helper()
	s.awaitMetric(`kubevmap_passive_health_endpoints{probes="reply"}`, len(daemon.Transports())*len(s.servers))
}

// awaitMetric waits until a metric has a value at least.
func (s *scene) awaitMetric(name string, want int) {
	s.t.Helper()
	eventually.Succeeds(s.t, name, func() error {
		n, err := s.metric(name)
		if err == nil && n < want {
			err = fmt.Errorf("%d, want %d", n, want)
		}
		return err
	})
}

func (s *scene) metric(name string) (n int, err error) {
	page, err := s.lab.Node.Get("http://127.0.0.1:10249/metrics", answer)
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(page, "\n"+name+" ")
	_, err = fmt.Sscan(after, &n)
	return n, err
}

// TestDeniedClientDoesNotCount has a policy that permits only one of two pods, and drops the probes of
// the node.
func TestDeniedClientDoesNotCount(t *testing.T) {
	t.Parallel()
	l, hosts := daemon.NewLab(t, 2, 2)
	permitted, denied := hosts[0], hosts[1]
	s := newSceneOf(t, l, hosts[2:], "--passive-health-checks=avoid")
	for _, server := range s.servers {
		s.nft(server, fmt.Sprintf("table inet firewall { chain input { type filter hook input priority 0; policy drop; "+
			"icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; ip saddr %s accept; ip6 saddr %s accept; }; }",
			permitted.Addr(model.IPv4), permitted.Addr(model.IPv6)))
	}
	from := func(h *lab.Host) (stop func()) {
		return s.repeat(func(w daemon.Transport, _ int) (string, error) { return s.askFrom(h, h.Addr(w.Family), w) })
	}
	stopOne, stopOther := from(permitted), from(denied)
	eventually.Succeeds(t, "retransmissions", func() error {
		page := labtest.Run(t, s.lab.Node.Host, "", "nft", "list counters table ip kube-vmap")
		_, after, _ := strings.Cut(page, "counter unanswered {")
		n := 0
		_, err := fmt.Sscanf(strings.TrimSpace(after), "packets %d", &n)
		if err == nil && n < 20 {
			err = fmt.Errorf("%d packets were sent again", n)
		}
		return err
	})
	stopOne()
	stopOther()
	if n := s.proxy.CountMessages(messageUnresponsive) + s.proxy.CountMessages("endpoint possibly unresponsive"); n > 0 {
		t.Errorf("%d times an endpoint counted as unresponsive", n)
	}
}

// TestProhibitedProbesDoNotCount has a policy reject what comes from everyone, as firewalld does.
func TestProhibitedProbesDoNotCount(t *testing.T) {
	s := newScene(t, "--passive-health-checks=avoid")
	stop := s.traffic()
	s.awaitEach(s.servers[2])
	s.verified()
	const probes = "kubevmap_passive_health_probes_total"
	before, err := s.metric(probes)
	if err != nil {
		t.Fatal(err)
	}
	s.nft(s.servers[2], "table inet firewall { chain input { type filter hook input priority 0; "+
		"icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; reject with icmpx type admin-prohibited; }; }")
	s.awaitMetric(probes, before+3*len(daemon.Transports()))
	stop()
	if n := s.proxy.CountMessages(messageUnresponsive); n > 0 {
		t.Errorf("%d times an endpoint counted as unresponsive", n)
	}
}

// TestExternalIPsGetNoProbes has a Service whose external IP is the address of another's endpoint, at
// the ports of probes. When that endpoint dies, probes of it are not answered by the other one's.
func TestExternalIPsGetNoProbes(t *testing.T) {
	s := newScene(t, "--passive-health-checks=avoid")
	stop := s.traffic()
	s.awaitEach(s.servers[2])
	s.verified()
	victim := s.servers[2]
	s.folder.Put("other", daemon.Service{
		Name: "other", Namespace: "other", Number: 2, Endpoints: s.servers[:1],
		ServicePorts: []daemon.ServicePort{
			{Name: "web", Protocol: model.TCP, Port: daemon.TargetPort, Target: daemon.TargetPort},
			{Name: "discard", Protocol: model.TCP, Port: 9, Target: daemon.TargetPort},
		},
		Edit: func(o *corev1.Service) {
			for _, f := range model.Families {
				o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, victim.Addr(f).String())
			}
		},
	})
	for _, f := range model.Families {
		to := victim.AddrPort(f, daemon.TargetPort)
		eventually.Succeeds(t, "an answer of the other endpoint at "+to.String(), func() error {
			a, err := s.lab.Node.Ask(model.TCP, to, answer)
			if err == nil && a.By != s.servers[0].Name {
				err = fmt.Errorf("answered by %q", a.By)
			}
			return err
		})
	}
	s.kill(victim)
	s.awaitAll(messageUnresponsive, victim)
	stop()
}

// TestNewEndpointIsProbedWhenItJoins adds an endpoint to a Service in use. It is probed before clients
// connect to it, dies, and is found by the first of them.
func TestNewEndpointIsProbedWhenItJoins(t *testing.T) {
	t.Parallel()
	l, servers := daemon.NewLab(t, 1, 2)
	s := newSceneOf(t, l, servers[:2], "--passive-health-checks=avoid")
	stop := s.traffic()
	s.verified()
	stop()
	s.servers, s.service.Endpoints = servers, servers
	s.folder.Put("web", s.service)
	s.verified()
	s.kill(servers[2])
	stop = s.traffic()
	s.awaitAll(messageUnresponsive, servers[2])
	stop()
}

// TestStandbyServesWhilePrimaryIsUnresponsive has one endpoint of the best priority, and others that
// stand by in place of it until it replies again.
func TestStandbyServesWhilePrimaryIsUnresponsive(t *testing.T) {
	s := newScene(t, "--passive-health-checks=avoid")
	primary := s.servers[2]
	stop := s.traffic()
	s.verified()
	s.service.Priorities = []int{1, 1, 0}
	before := s.proxy.CountMessages("applied")
	s.folder.Put("web", s.service)
	s.proxy.AwaitMessages(before+1, "applied")
	served := func(by ...string) {
		t.Helper()
		for i, w := range daemon.Transports() {
			for range rounds {
				got, err := s.ask(w, i)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(by, got) {
					t.Errorf("%s: answered by %q, want one of %q", w, got, by)
				}
			}
		}
	}
	served(primary.Name)
	s.kill(primary)
	s.awaitAll(messageUnresponsive, primary)
	stop()
	served(s.servers[0].Name, s.servers[1].Name)
	s.nft(primary, "delete table inet dead")
	s.awaitAll(messageResponsive, primary)
	s.awaitEach(primary)
	served(primary.Name)
}
