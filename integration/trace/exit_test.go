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
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/trace"
)

// A started is a running explain --trace.
type started struct {
	cmd *lab.Cmd
	out *process.Log
}

// start runs explain --trace for packets to a port.
func (s *scene) start(w daemon.Transport, port uint16, flags ...string) started {
	s.t.Helper()
	program := daemon.Program(s.t)
	p := s.packet(w, port)
	args := []string{"explain", "--trace", "--from=" + p.From.String(), fmt.Sprintf("--to=%s/%s", p.To, p.Protocol)}
	c := started{s.Node.Command(s.t.Context(), program, append(args, flags...)...), &process.Log{}}
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.out
	s.must(c.cmd.Start())
	return c
}

// waitReady waits until the trace is ready for packets.
func (s *scene) waitReady(out *process.Log) {
	s.t.Helper()
	eventually.Holds(s.t, "waiting for packets", func() bool { return strings.Contains(out.String(), "now send one") })
}

// exits checks the exit code, that the output has texts, and that no table of a tracer stays.
func (s *scene) exits(c started, want int, texts ...string) {
	s.t.Helper()
	code := 0
	var exit *exec.ExitError
	if err := c.cmd.Wait(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		s.must(err)
	}
	if code != want {
		s.t.Errorf("exit code %d, want %d:\n%s", code, want, c.out)
	}
	for _, text := range texts {
		if !strings.Contains(c.out.String(), text) {
			s.t.Errorf("%q is missing in\n%s", text, c.out)
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
		var traces []started
		for _, w := range daemon.Transports() {
			c := s.start(w, tc.port, "--count=1", "--timeout="+timeout.String())
			s.waitReady(c.out)
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
		s.waitReady(c.out)
		s.ask(s.client, w, servicePort)
		s.nft("table inet firewall { chain forward { type filter hook forward priority 0; drop; }; }")
		s.ask(s.client, w, servicePort)
		fam := nft.FamilyName(f)
		s.exits(c, 1, "-101  "+fam+" kube-vmap nat-prerouting\n", "vmap @services  -> goto cluster-2\n",
			fmt.Sprintf("destination %s becomes ", s.packet(w, servicePort).To), "  SENT by ", "0  inet firewall forward\n",
			"DROPPED by table inet firewall, chain forward, rule ", "2 packets shown\n")
		if strings.Contains(c.out.String(), trace.TableName) {
			t.Errorf("the output has the tracer's own chains:\n%s", c.out)
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
		s.waitReady(c.out)
		s.must(c.cmd.Process.Signal(os.Interrupt))
		s.exits(c, 2, "0 packets shown\n")
	}
}
