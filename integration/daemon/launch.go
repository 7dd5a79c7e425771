package daemon

import (
	"testing"

	"kube-vmap/integration/lab"
)

// Launch says how to run the program, for tests that have more to say than
// [Start] takes.
type Launch struct {
	Node   *lab.Node
	Folder *Folder
	Flags  []string
	// By is a program with arguments which ends by becoming the one that follows
	// them, as env does; none if empty.
	By []string
}

// Start runs the program and does not wait for anything; else it is [Start].
func (l Launch) Start(t testing.TB) *Daemon {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	line := append(l.By[:len(l.By):len(l.By)],
		path, "--manifests", l.Folder.dir, "--hostname-override", l.Node.Name,
		"--logging-format", "json", "-v", "4", PodRanges,
		"--oom-score-adj", "0", // not everybody may set it
	)
	line = append(line, l.Flags...)
	d := &Daemon{t: t, log: &journal{}, over: make(chan struct{})}
	d.cmd = l.Node.Command(t.Context(), line[0], line[1:]...)
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.err = d.cmd.Wait(); close(d.over) }()
	t.Cleanup(d.close)
	return d
}

// Build builds the program, if it is not built, for those who want to know how
// long a start takes.
func Build(t testing.TB) {
	t.Helper()
	if _, err := program(); err != nil {
		t.Fatal(err)
	}
}

// Await waits until the program has told the message.
func (d *Daemon) Await(message string) { d.t.Helper(); d.AwaitTimes(1, message) }

// AwaitTimes waits until the program has told the message so often.
func (d *Daemon) AwaitTimes(n int, message string) { d.t.Helper(); d.logged(0, n, message) }

// Told is how many lines with one of the messages the program has written.
func (d *Daemon) Told(messages ...string) int { return len(d.log.find(0, messages...)) }

// Over is closed when the process is no more.
func (d *Daemon) Over() <-chan struct{} { return d.over }
