package trace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
	"kube-vmap/model"
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

// exits checks the exit code.
func (s *scene) exits(c started, want int) {
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

// One lost packet of several decides.
func TestExitCodeIsThatOfTheWorstPacket(t *testing.T) {
	s := newSceneIn(t, bridge)
	for _, f := range model.Families {
		w := daemon.Transport{Protocol: model.TCP, Family: f}
		c := s.start(w, servicePort, "--count=2", "--timeout="+timeout.String())
		s.waitReady(c.out)
		s.ask(s.client, w, servicePort)
		s.nft("table inet firewall { chain forward { type filter hook forward priority 0; drop; }; }")
		s.ask(s.client, w, servicePort)
		s.exits(c, 1)
		s.nft("delete table inet firewall")
	}
}

func TestExitCodeWithoutPackets(t *testing.T) {
	s := newSceneIn(t, bridge)
	for _, f := range model.Families {
		w := daemon.Transport{Protocol: model.TCP, Family: f}
		s.exits(s.start(w, servicePort, "--timeout=1ms"), 1)
		c := s.start(w, servicePort)
		s.waitReady(c.out)
		s.must(c.cmd.Process.Signal(os.Interrupt))
		s.exits(c, 2)
	}
}
