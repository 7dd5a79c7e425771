package diagnosis

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
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
)

// asked counts requests.
var asked atomic.Uint32

// fresh returns a client port that was not used before: connection tracking could take it for
// the former connection. Servers have lower ports.
func fresh() netip.AddrPort {
	return netip.AddrPortFrom(netip.Addr{}, 10000+uint16(asked.Add(1)%55000))
}

// meanwhile connects over all protocols and families while a function runs, and returns the
// number of connections.
func (s *scene) meanwhile(to daemon.Service, do func()) (made int) {
	s.t.Helper()
	over := make(chan struct{})
	var group errgroup.Group
	group.Go(func() error {
		for {
			for _, w := range daemon.Transports() {
				select {
				case <-over:
					return nil
				default:
				}
				got, err := s.Pods[0].AskFrom(w.Protocol, fresh(), s.clusterIP(to, w.Family), 4*answer)
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
		s.t.Fatal(err)
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

// TestTopShowsConnectionsAsTheyAreMade has three connections per protocol and family that stay
// open, and others that are made while it reads. get has the same numbers.
func TestTopShowsConnectionsAsTheyAreMade(t *testing.T) {
	s := newScene(t, 2, 0)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: s.servers[1:]}
	s.folder.Put("services", web, daemon.Service{Name: "idle", Number: 2, Endpoints: s.servers}, daemon.Service{Name: "none", Number: 3})
	daemon.Start(t, s.Node, s.folder)
	const kept = 3
	for _, w := range daemon.Transports() {
		for range kept {
			flow, err := s.Pods[0].Flow(w.Protocol, fresh(), s.clusterIP(web, w.Family))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := flow.Ask(4 * answer); err != nil || got.Outcome != lab.Answered {
				t.Fatalf("ask over %s: %s, %v", w, got, err)
			}
		}
	}
	open := kept * len(daemon.Transports())
	quiet := s.prints("top")
	got, all := line(t, quiet, "web"), strconv.Itoa(open)
	if got["CONN/S"] != "0.0" || got["ACTIVE"] != all || got["CONNECTIONS"] != all || got["STATUS"] != "OK" {
		t.Errorf("with %d open connections:\n%s", open, quiet)
	}
	if none := line(t, quiet, "none"); !strings.HasPrefix(none["STATUS"], "NoEndpoints") {
		t.Errorf("a Service without endpoints:\n%s", quiet)
	}

	var busy string
	var took time.Duration
	made := s.meanwhile(web, func() {
		start := time.Now()
		busy = s.prints("top", "--interval", "2s")
		took = time.Since(start)
	})
	now := line(t, busy, "web")
	rate := number(t, now["CONN/S"])
	// It shows at most all connections, and at least those of two seconds.
	if rate <= 0 || rate*2 > float64(made)+1 || rate*took.Seconds() < float64(made)/4 {
		t.Errorf("%d connections in %s:\n%s", made, took, busy)
	}
	if so := number(t, now["CONNECTIONS"]); so <= float64(open) || so > float64(open+made) || number(t, now["ACTIVE"]) < float64(open) {
		t.Errorf("%d connections, %d before:\n%s", made, open, busy)
	}
	idle := line(t, busy, "idle")
	if idle["CONN/S"] != "0.0" || idle["ACTIVE"] != "0" || idle["CONNECTIONS"] != "0" || strings.Index(busy, "web") > strings.Index(busy, "idle") {
		t.Errorf("a Service without connections:\n%s", busy)
	}

	total := strconv.Itoa(open + made)
	after := s.prints("top", "-n", "default", "--count", "2")
	if got := line(t, after, "web")["CONNECTIONS"]; got != total || strings.Count(after, "NAMESPACE") != 2 {
		t.Errorf("%s connections, want %s:\n%s", got, total, after)
	}
	for _, args := range [][]string{{"get", "svc", "web"}, {"get", "svc", "web", "--kernel"}} {
		if table := s.prints(args...); !strings.Contains(table, " "+total+" ") {
			t.Errorf("%v, want %s connections:\n%s", args, total, table)
		}
	}
}

func TestSignalEndsTopWithoutError(t *testing.T) {
	s := newScene(t, 1, 0)
	s.folder.Put("web", daemon.Service{Name: "web", Number: 1})
	daemon.Start(t, s.Node, s.folder)
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
