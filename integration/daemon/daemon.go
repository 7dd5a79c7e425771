package daemon

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-vmap/integration/lab"
)

// PodRanges is the flag by which the proxy can tell pods from others, on every
// node of a lab.
const PodRanges = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/48"

// Daemon is the program at work on a node.
type Daemon struct {
	t    testing.TB
	log  *journal
	cmd  *lab.Cmd
	over chan struct{} // closed when the process is no more
	err  error         // of Wait, when over
	told bool          // to end
	fine []string      // warnings that are to be expected
}

// Start runs the program on the folder, with [PodRanges] and further flags, and
// waits until all that the folder holds is programmed. If the test does not end
// it, the test's end does. Warnings in its log fail the test.
func Start(t testing.TB, node *lab.Node, f *Folder, flags ...string) *Daemon {
	t.Helper()
	d := Launch{Node: node, Folder: f, Flags: flags}.Start(t)
	d.logged(0, 1, "ready")
	return d
}

// close ends the program with the test.
func (d *Daemon) close() {
	d.Kill()
	if bad := d.log.bad(d.fine); len(bad) > 0 {
		d.t.Errorf("the proxy complains:\n%s", strings.Join(bad, "\n"))
	}
	if d.t.Failed() {
		d.t.Logf("the last of what the proxy wrote:\n%s", d.log)
	}
}

// Stop ends the program as an orderly system does.
func (d *Daemon) Stop() {
	d.t.Helper()
	if err := d.end(syscall.SIGTERM); err != nil {
		d.t.Errorf("the proxy ended with %v", err)
	}
}

// Kill ends the program at once, wherever it is.
func (d *Daemon) Kill() {
	d.t.Helper()
	err := d.end(syscall.SIGKILL)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		d.t.Errorf("kill the proxy: %v", err)
	}
}

func (d *Daemon) end(s os.Signal) error {
	if d.told {
		return nil
	}
	d.told = true
	if err := d.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-d.over
	return d.err
}

// Ignore says that warnings of this message are to be expected.
func (d *Daemon) Ignore(message string) { d.fine = append(d.fine, message) }

// After makes a change to the folder and waits until the program has taken it.
func (d *Daemon) After(change func()) {
	d.t.Helper()
	before := d.log.count()
	change()
	d.logged(before, 1, "applied", "nothing to change")
}

// patience is far more than the program ever needs.
const patience = 20 * time.Second

// logged waits for so many lines with one of the messages, from a line on.
func (d *Daemon) logged(from, n int, messages ...string) {
	d.t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	late := time.After(patience)
	for len(d.log.find(from, messages...)) < n {
		select {
		case <-ticker.C:
		case <-d.over:
			d.t.Fatalf("the proxy ended (%v) before it told %q", d.err, messages)
		case <-late:
			d.t.Fatalf("the proxy did not tell %q within %s", messages, patience)
		}
	}
}
