package trace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/trace"
)

// start runs explain --trace for packets to a port.
func (s *scene) start(w daemon.Transport, port uint16, flags ...string) *process.Process {
	s.t.Helper()
	p := s.packet(w, port)
	args := []string{"explain", "--trace", "--from=" + p.From.String(), fmt.Sprintf("--to=%s/%s", p.To, p.Protocol)}
	c, err := process.Start(s.t.Context(), process.Config{Program: daemon.Program(s.t), Args: append(args, flags...), Host: s.Node.Host})
	s.must(err)
	s.t.Cleanup(c.Kill)
	return c
}

func printed(c *process.Process) string { return c.Stdout.String() + c.Log.String() }

// waitReady waits until the trace is ready for packets.
func (s *scene) waitReady(c *process.Process) {
	s.t.Helper()
	eventually.Holds(s.t, "waiting for packets", func() bool { return strings.Contains(printed(c), "now send one") })
}

// exits checks the exit code, that the output has texts, and that no table of a tracer stays.
func (s *scene) exits(c *process.Process, want int, texts ...string) {
	s.t.Helper()
	code := 0
	var exit *exec.ExitError
	if err := c.Wait(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		s.must(err)
	}
	if code != want {
		s.t.Errorf("exit code %d, want %d:\n%s", code, want, printed(c))
	}
	for _, text := range texts {
		if !strings.Contains(printed(c), text) {
			s.t.Errorf("%q is missing in\n%s", text, printed(c))
		}
	}
	s.waitNoTables()
}

func TestExitCodeByArrival(t *testing.T) {
	s := newSceneIn(t, bridge)
	s.run("bridge", "link", "set", "dev", s.Pods[2].Link, "hairpin", "off")
	for _, tc := range []struct {
		port uint16
		want int
	}{
		{remotePort, 0}, // sent
		{emptyPort, 1},  // refused
		{ownPort, 2},    // not seen again
	} {
		var traces []*process.Process
		for _, w := range daemon.Transports() {
			c := s.start(w, tc.port, "--count=1", "--timeout="+timeout.String())
			s.waitReady(c)
			s.ask(s.client, w, tc.port)
			traces = append(traces, c)
		}
		for _, c := range traces {
			s.exits(c, tc.want)
		}
	}
}

// One lost packet of several decides. The output has the path of each.
func TestExitCodeIsThatOfTheWorstPacket(t *testing.T) {
	s := newSceneIn(t, bridge)
	for _, f := range model.Families {
		w := daemon.Transport{Protocol: model.TCP, Family: f}
		c := s.start(w, servicePort, "--count=2", "--timeout="+timeout.String())
		s.waitReady(c)
		s.ask(s.client, w, servicePort)
		s.nft("table inet firewall { chain forward { type filter hook forward priority 0; drop; }; }")
		s.ask(s.client, w, servicePort)
		fam := nft.FamilyName(f)
		s.exits(c, 1, "-101  "+fam+" kube-vmap nat-prerouting\n", "vmap @services  -> goto cluster-2\n",
			fmt.Sprintf("destination %s becomes ", s.packet(w, servicePort).To), "  SENT by ", "0  inet firewall forward\n",
			"DROPPED by table inet firewall, chain forward, rule ", "2 packets shown\n")
		if strings.Contains(printed(c), trace.TableName) {
			t.Errorf("the output has the tracer's own chains:\n%s", printed(c))
		}
		s.nft("delete table inet firewall")
	}
}

func TestExitCodeWithoutPackets(t *testing.T) {
	s := newSceneIn(t, bridge)
	for _, f := range model.Families {
		w := daemon.Transport{Protocol: model.TCP, Family: f}
		s.exits(s.start(w, servicePort, "--timeout=1ms"), 1, "on another node")
		c := s.start(w, servicePort)
		s.waitReady(c)
		s.must(c.Signal(os.Interrupt))
		s.exits(c, 2, "0 packets shown\n")
	}
}
