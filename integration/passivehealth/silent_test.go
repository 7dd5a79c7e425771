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

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
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
	folder  *daemon.Folder
	proxy   *daemon.Daemon
}

func newScene(t *testing.T, flags ...string) *scene {
	t.Helper()
	t.Parallel()
	l, servers := daemon.NewLab(t, 1, 2)
	f := daemon.NewFolder(t, l)
	s := daemon.Service{Name: "web", Number: 1, Endpoints: servers, Kinds: daemon.Kinds}
	f.Put("web", s)
	sc := &scene{t, l, servers, s, f, daemon.Start(t, l.Node, f, flags...)}
	sc.proxy.Ignore(messageSilent)
	return sc
}

// nft runs nft on a host.
func (s *scene) nft(h *lab.Host, commands string) {
	s.t.Helper()
	labtest.Run(s.t, h, "", "nft", commands)
}

// silence makes an endpoint drop all packets.
func (s *scene) silence(h *lab.Host) {
	s.t.Helper()
	s.nft(h, "add table inet silent; add chain inet silent input { type filter hook input priority -300; "+
		"policy drop; }; add rule inet silent input icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept")
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
	s.nft(silent, "delete table inet silent")
	s.awaitAll(messageUsed, silent)
	s.awaitEach(silent)
}

// checkShown checks that commands name the avoided endpoint on a host.
func (s *scene) checkShown(h *lab.Host) {
	s.t.Helper()
	problems := daemon.Run(s.t, s.lab.Node.Host, "problems", "--observe", "0").Stdout
	endpoints := daemon.Run(s.t, s.lab.Node.Host, "get", "endpoints", "-A").Stdout
	diff := daemon.Run(s.t, s.lab.Node.Host, "diff", "--manifests", s.folder.Dir(), "--hostname-override", s.lab.Node.Name)
	if diff.ExitCode != 1 || !strings.Contains(diff.Stderr, "the running kube-vmap has no answer from 6 endpoints") {
		s.t.Errorf("diff ends with %d and prints %s", diff.ExitCode, diff.Stderr)
	}
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
	s.nft(silent, "delete table inet silent")
	s.awaitAll(messageUsed, silent)
	stop()
	if n := s.proxy.CountMessages("applied"); n != before {
		t.Errorf("%d changes were applied", n-before)
	}
}

// TestPolicyAgainstOneClientIsNoSilence has an endpoint drop all packets of one pod, while others
// get their answers.
func TestPolicyAgainstOneClientIsNoSilence(t *testing.T) {
	s := newScene(t, "--passive-health-checks=avoid")
	client, server := s.servers[0], s.servers[2]
	s.nft(server, fmt.Sprintf("add table inet refusal; "+
		"add chain inet refusal input { type filter hook input priority 0; }; "+
		"add rule inet refusal input ip saddr %s drop; add rule inet refusal input ip6 saddr %s drop",
		client.Addr(model.IPv4), client.Addr(model.IPv6)))
	others := s.traffic()
	refused := s.repeat(func(w daemon.Transport, _ int) (string, error) { return s.askFrom(client, client.Addr(w.Family), w) })
	s.awaitQuestions(2 * len(daemon.Transports()))
	refused()
	others()
	if n := s.proxy.CountMessages(messageSilent); n > 0 {
		t.Errorf("%d times an endpoint counted as one that does not answer", n)
	}
}

// awaitQuestions waits until the node has asked so many questions.
func (s *scene) awaitQuestions(n int) {
	s.t.Helper()
	eventually.Succeeds(s.t, "questions", func() error {
		page, err := s.lab.Node.Get("http://127.0.0.1:10249/metrics", answer)
		if err != nil {
			return err
		}
		asked := 0
		_, after, _ := strings.Cut(page, "\nkubevmap_passive_health_questions_total ")
		if _, err = fmt.Sscan(after, &asked); err == nil && asked < n {
			err = fmt.Errorf("%d questions asked", asked)
		}
		return err
	})
}
