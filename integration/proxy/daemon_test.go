package proxy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
)

// podRanges is the flag by which the proxy can tell pods from others.
const podRanges = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/48"

// daemon is the program at work on node-1.
type daemon struct {
	t    *testing.T
	log  *journal
	cmd  *lab.Cmd
	done chan error // receives the result of Wait
	over bool
}

// start runs the proxy on the folder. If the test does not end it, the test's
// end does.
func start(t *testing.T, node *lab.Node, dir string, flags ...string) *daemon {
	t.Helper()
	args := append([]string{"--manifests", dir, "--hostname-override", "node-1", "--logging-format", "json", "-v", "2"}, flags...)
	d := &daemon{t: t, log: &journal{}, done: make(chan error, 1)}
	d.cmd = node.Command(t.Context(), program(t), args...)
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.done <- d.cmd.Wait() }()
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("what the proxy wrote:\n%s", d.log)
		}
	})
	return d
}

// stop ends the proxy as an orderly system does.
func (d *daemon) stop() {
	d.t.Helper()
	if err := d.end(syscall.SIGTERM); err != nil {
		d.t.Errorf("the proxy ended with %v", err)
	}
}

// kill ends the proxy at once, wherever it is.
func (d *daemon) kill() {
	d.t.Helper()
	err := d.end(syscall.SIGKILL)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		d.t.Errorf("kill the proxy: %v", err)
	}
}

func (d *daemon) end(s os.Signal) error {
	if d.over {
		return nil
	}
	d.over = true
	if err := d.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return <-d.done
}

// logged waits for a line of the log with that message, from the n-th line on,
// that suits, and returns it.
func (d *daemon) logged(from int, message string, suits func(entry) bool) entry {
	d.t.Helper()
	var hit entry
	eventually.Succeeds(d.t, "log line "+message, func() error {
		found, _ := d.log.find(from, message)
		for _, e := range found {
			if suits(e) {
				hit = e
				return nil
			}
		}
		return fmt.Errorf("none of %d lines of that message suits: %v", len(found), found)
	})
	return hit
}

// lines is the number of lines that the log has so far.
func (d *daemon) lines() int {
	_, n := d.log.find(0, "")
	return n
}
