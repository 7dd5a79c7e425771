package daemon

import (
	"fmt"
	"strings"
	"testing"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

// PodRanges is the flag with the pod ranges of every node of a lab.
const PodRanges = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/48"

// Daemon is kube-vmap running on a node. Its log is in JSON.
type Daemon struct {
	*process.Process
	t        testing.TB
	ended    bool
	problems bool     // are allowed
	ignored  []string // messages of warnings that are expected
}

// Start runs the program on the folder, with [PodRanges] and further flags, and
// waits until all objects of the folder are programmed. The end of the test kills
// it, if the test does not end it itself. A warning in its log fails the test.
func Start(t testing.TB, node *lab.Node, f *Folder, flags ...string) *Daemon {
	t.Helper()
	d := Launch{Node: node, Folder: f, Flags: flags}.Start(t)
	d.AwaitMessage("ready")
	return d
}

// close ends the program with the test.
func (d *Daemon) close() {
	d.Kill()
	if problems := d.Log.Problems(d.ignored...); len(problems) > 0 && !d.problems {
		d.t.Errorf("problems in the log of kube-vmap:\n%s", strings.Join(problems, "\n"))
	}
	if d.t.Failed() {
		d.t.Logf("the end of kube-vmap's log:\n%s", d.Log.Tail())
	}
}

// Stop sends SIGTERM and waits. An exit code other than 0 fails the test.
func (d *Daemon) Stop() {
	d.t.Helper()
	if d.ended {
		return
	}
	d.ended = true
	if err := d.Process.Stop(); err != nil {
		d.t.Error(err)
	}
}

// Kill sends SIGKILL and waits.
func (d *Daemon) Kill() {
	d.t.Helper()
	if d.ended {
		return
	}
	d.ended = true
	d.Process.Kill()
}

// Ignore allows warnings with this message.
func (d *Daemon) Ignore(message string) { d.ignored = append(d.ignored, message) }

// After makes a change to the folder and waits until the program has applied it.
func (d *Daemon) After(change func()) {
	d.t.Helper()
	before := d.Log.Len()
	change()
	d.await(before, 1, "applied", "nothing to change")
}

// AwaitMessage waits until the message is in the log.
func (d *Daemon) AwaitMessage(message string) { d.t.Helper(); d.AwaitMessages(1, message) }

// AwaitMessages waits until the message is in the log n times.
func (d *Daemon) AwaitMessages(n int, message string) { d.t.Helper(); d.await(0, n, message) }

// await waits for n lines with one of the messages, from a line on.
func (d *Daemon) await(from, n int, messages ...string) {
	d.t.Helper()
	d.wait(fmt.Sprintf("%d log lines %q", n, messages), func() error {
		if found := len(d.Log.Find(from, messages...)); found < n {
			return fmt.Errorf("%d lines found", found)
		}
		return nil
	})
}

// Logged waits for a log line with this message for which match returns true,
// from a line on, and returns it.
func (d *Daemon) Logged(from int, message string, match func(process.Entry) bool) (found process.Entry) {
	d.t.Helper()
	d.wait("a log line "+message, func() error {
		entries := d.Log.Find(from, message)
		for _, e := range entries {
			if match(e) {
				found = e
				return nil
			}
		}
		return fmt.Errorf("none of %d lines matches: %v", len(entries), entries)
	})
	return found
}

func (d *Daemon) wait(what string, try func() error) {
	d.t.Helper()
	if err := d.Within(d.t.Context(), eventually.Timeout, what, try); err != nil {
		d.t.Fatal(err)
	}
}

// CountMessages returns how many log lines have one of the messages.
func (d *Daemon) CountMessages(messages ...string) int { return len(d.Log.Find(0, messages...)) }
