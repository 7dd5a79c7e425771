package top

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

const (
	// patience is longer than anything here takes.
	patience = 20 * time.Second
	// kept is how many connections per protocol and family stay open.
	kept = 3
)

// scene is a node with two Services, one of which has open connections.
type scene struct {
	*lab.Lab
	web, idle daemon.Service
	daemon    *daemon.Daemon
}

func newScene(t *testing.T, flags ...string) *scene {
	t.Helper()
	s := &scene{Lab: labtest.New(t, lab.Options{Pods: 2})}
	for _, pod := range s.Pods {
		if err := pod.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
	}
	pods := []*lab.Host{s.Pods[0].Host, s.Pods[1].Host}
	s.web = daemon.Service{Name: "web", Number: 1, Endpoints: pods[1:]}
	s.idle = daemon.Service{Name: "idle", Number: 2, Endpoints: pods}
	none := daemon.Service{Name: "none", Number: 3}
	folder := daemon.NewFolder(t, s.Lab)
	folder.Put("services", s.web, s.idle, none)
	s.daemon = daemon.Start(t, s.Node, folder, flags...)
	for _, w := range daemon.Transports() {
		for range kept {
			flow, err := s.Pods[0].Flow(w.Protocol, fresh(), s.web.AddrPort(s.Node, w.Family, model.KindClusterIP, 0))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := flow.Ask(patience); err != nil || got.Outcome != lab.Answered {
				t.Fatalf("ask over %s: %s, %v", w, got, err)
			}
		}
	}
	return s
}

// asked counts requests.
var asked atomic.Uint32

// fresh returns a client port that was not used before: connection tracking could take it for
// the former connection. Servers have lower ports.
func fresh() netip.AddrPort {
	return netip.AddrPortFrom(netip.Addr{}, 10000+uint16(asked.Add(1)%55000))
}

// open is the number of open connections of the Service.
func (s *scene) open() int { return kept * len(daemon.Transports()) }

// meanwhile connects over all protocols and families while a function runs, and returns the
// number of connections.
func (s *scene) meanwhile(t *testing.T, do func()) int {
	t.Helper()
	over := make(chan struct{})
	var group errgroup.Group
	var made int
	group.Go(func() error {
		for {
			for _, w := range daemon.Transports() {
				select {
				case <-over:
					return nil
				default:
				}
				got, err := s.Pods[0].AskFrom(w.Protocol, fresh(), s.web.AddrPort(s.Node, w.Family, model.KindClusterIP, 0), patience)
				if err != nil || got.Outcome != lab.Answered {
					return errors.Join(fmt.Errorf("ask over %s: %s", w, got), err)
				}
				made++
			}
		}
	})
	do()
	close(over)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return made
}

// line returns the numbers in the line of a Service, by column.
func line(t *testing.T, block, name string) map[string]string {
	t.Helper()
	titles := strings.Fields(regexp.MustCompile(`(?m)^NAMESPACE.*$`).FindString(block))
	cells := strings.Fields(regexp.MustCompile(`(?m)^default +` + name + ` .*$`).FindString(block))
	if len(cells) < len(titles) {
		t.Fatalf("there is no line of %s:\n%s", name, block)
	}
	out := map[string]string{}
	for i, title := range titles {
		out[title] = cells[i]
	}
	return out
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// top runs kube-vmap top for lines.
func (s *scene) top(t *testing.T, args ...string) string {
	t.Helper()
	got := daemon.Run(t, s.Node.Host, append([]string{"top"}, args...)...)
	if got.ExitCode != 0 {
		t.Fatalf("%v: exit code %d: %s", args, got.ExitCode, got.Stderr)
	}
	return got.Stdout + got.Stderr
}

func TestConnectionsShowAsTheyAreMade(t *testing.T) {
	s := newScene(t)
	quiet := s.top(t)
	got := line(t, quiet, "web")
	open := strconv.Itoa(s.open())
	if got["CONN/S"] != "0.0" || got["ACTIVE"] != open || got["CONNECTIONS"] != open || got["STATUS"] != "OK" {
		t.Errorf("with %s open connections:\n%s", open, quiet)
	}
	if none := line(t, quiet, "none"); none["STATUS"] != "NoEndpoints" && none["STATUS"] != "NoEndpoints:" {
		t.Errorf("a Service without endpoints:\n%s", quiet)
	}

	var busy string
	var took time.Duration
	made := s.meanwhile(t, func() {
		start := time.Now()
		busy = s.top(t, "--interval", "2s")
		took = time.Since(start)
	})
	web := line(t, busy, "web")
	rate := number(t, web["CONN/S"])
	// It shows at most all connections, and at least those of two seconds.
	if rate <= 0 || rate*2 > float64(made)+1 || rate*took.Seconds() < float64(made)/4 {
		t.Errorf("%d connections in %s:\n%s", made, took, busy)
	}
	if so := number(t, web["CONNECTIONS"]); so <= float64(s.open()) || so > float64(s.open()+made) {
		t.Errorf("%d connections, %d before:\n%s", made, s.open(), busy)
	}
	if active := number(t, web["ACTIVE"]); active < float64(s.open()) {
		t.Errorf("%d are open:\n%s", s.open(), busy)
	}
	idle := line(t, busy, "idle")
	if idle["CONN/S"] != "0.0" || idle["ACTIVE"] != "0" || idle["CONNECTIONS"] != "0" {
		t.Errorf("a Service without connections:\n%s", busy)
	}
	if strings.Index(busy, "web") > strings.Index(busy, "idle") {
		t.Errorf("the busiest is not first:\n%s", busy)
	}

	after := s.top(t, "-n", "default")
	if got := line(t, after, "web")["CONNECTIONS"]; got != strconv.Itoa(s.open()+made) {
		t.Errorf("%s connections, want %d", got, s.open()+made)
	}
	if other := s.top(t, "-n", "other"); !strings.Contains(other, " 0 Services") {
		t.Errorf("of another namespace:\n%s", other)
	}
	if lines := s.top(t, "--count", "2"); strings.Count(lines, "NAMESPACE") != 2 || strings.Contains(lines, "\x1b") {
		t.Errorf("two tables:\n%q", lines)
	}
}

func TestActiveConnectionsShowWithoutCounting(t *testing.T) {
	s := newScene(t, "--count-connections=false")
	block := s.top(t)
	if got := line(t, block, "web"); got["ACTIVE"] != strconv.Itoa(s.open()) || !strings.Contains(block, "does not count connections") {
		t.Errorf("with %d open connections:\n%s", s.open(), block)
	}
}

func TestNoProxyErrorGivesTheNextStep(t *testing.T) {
	s := newScene(t)
	s.daemon.Stop()
	got := daemon.Run(t, s.Node.Host, "top")
	if got.ExitCode != 1 || got.Stdout != "" || !strings.Contains(got.Stderr, "does kube-vmap run?") {
		t.Errorf("exit code %d: %s%s", got.ExitCode, got.Stdout, got.Stderr)
	}
}

func TestSignalEndsTopWithoutError(t *testing.T) {
	s := newScene(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := s.Node.Command(t.Context(), daemon.Program(t), "top", "--watch")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "NAMESPACE") {
		}
		_ = cmd.Process.Signal(signal)
		for lines.Scan() {
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("after %s, top ended with %v", signal, err)
		}
	}
}
