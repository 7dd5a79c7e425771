package passivehealth

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// answer is the timeout of a question.
	answer = 1500 * time.Millisecond
	// rounds is how many questions of each transport an avoided endpoint must not get.
	rounds = 40

	messageSilent = "endpoint does not answer"
	messageUsed   = "endpoint used again"
)

// A scene is a Service with an endpoint on node-1 and two on node-2, and clients outside.
type scene struct {
	t       *testing.T
	lab     *lab.Lab
	servers []*lab.Host
	service daemon.Service
	proxy   *daemon.Daemon
}

func newScene(t *testing.T, flags ...string) *scene {
	t.Helper()
	t.Parallel()
	l, servers := daemon.NewLab(t, 1, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Kinds: daemon.Kinds}
	f.Put("web", s)
	sc := &scene{t, l, servers, s, daemon.Start(t, l.Node, f, flags...)}
	sc.proxy.Ignore(messageSilent)
	return sc
}

// command runs a program on a host.
func (s *scene) command(h *lab.Host, name string, args ...string) {
	s.t.Helper()
	if out, err := h.Command(s.t.Context(), name, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// silence makes an endpoint drop all packets.
func (s *scene) silence(h *lab.Host) {
	s.t.Helper()
	s.command(h, "nft", "add table inet silent; add chain inet silent input { type filter hook input priority -300; "+
		"policy drop; }; add rule inet silent input icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept")
}

// ask asks the Service once, and returns which endpoint answered; none if the question was not
// answered.
func (s *scene) ask(w daemon.Transport, client int) (by string, err error) {
	to := s.service.AddrPort(s.lab.Node, w.Family, model.KindClusterIP, 0)
	a, err := s.lab.Outside.AskFresh(w.Protocol, daemon.ClientAddr(w.Family, client), to, answer)
	if err != nil || a.Outcome != lab.Answered {
		return "", err
	}
	return a.By, nil
}

// traffic asks over all transports until stop is called.
func (s *scene) traffic() (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	var group errgroup.Group
	for i, w := range daemon.Transports() {
		for k := range 2 { // so that one that waits does not stop all
			group.Go(func() error {
				for ctx.Err() == nil {
					if _, err := s.ask(w, 2*i+k); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return func() {
		s.t.Helper()
		cancel()
		if err := group.Wait(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// awaitAll waits for a line with the message for each transport's endpoint on a host.
func (s *scene) awaitAll(message string, h *lab.Host) {
	s.t.Helper()
	for _, w := range daemon.Transports() {
		at := netip.AddrPortFrom(h.Addr(w.Family), daemon.TargetPort).String()
		s.proxy.Logged(0, message, func(e process.Entry) bool {
			return e["endpoint"] == at && e["protocol"] == w.Protocol.String()
		})
	}
}

func TestSilentEndpointGetsNoConnectionsUntilItAnswers(t *testing.T) {
	s := newScene(t, "--passive-health-checks=avoid")
	silent := s.servers[2]
	stop := s.traffic()
	s.awaitEach(silent)
	s.silence(silent)
	s.awaitAll(messageSilent, silent)
	stop()
	s.checkShown(silent)
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
	s.command(silent, "nft", "delete table inet silent")
	s.awaitAll(messageUsed, silent)
	s.awaitEach(silent)
}

// checkShown checks that commands name the avoided endpoint on a host.
func (s *scene) checkShown(h *lab.Host) {
	s.t.Helper()
	problems := daemon.Run(s.t, s.lab.Node.Host, "problems", "--observe", "0").Stdout
	endpoints := daemon.Run(s.t, s.lab.Node.Host, "get", "endpoints", "-A").Stdout
	for _, w := range daemon.Transports() {
		at := netip.AddrPortFrom(h.Addr(w.Family), daemon.TargetPort).String() + "/" + w.Protocol.String()
		for text, want := range map[string][]string{
			problems: {"EndpointNotAnswering", at, "questions since ", "; new connections avoid it"}, endpoints: {at, "Avoided"},
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
	silent := s.servers[2]
	stop := s.traffic()
	s.awaitEach(silent)
	before := s.proxy.CountMessages("applied")
	s.silence(silent)
	s.awaitAll(messageSilent, silent)
	s.command(silent, "nft", "delete table inet silent")
	s.awaitAll(messageUsed, silent)
	stop()
	if n := s.proxy.CountMessages("applied"); n != before {
		t.Errorf("%d changes were applied", n-before)
	}
}
