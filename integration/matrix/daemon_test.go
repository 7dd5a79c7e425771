package matrix

import (
	"bytes"
	"context"
	stdsync "sync"
	"syscall"
	"testing"

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

// run starts the program on the folder. If the test does not end it, the test's
// end does.
func run(t *testing.T, node *lab.Node, dir string, flags ...string) *daemon {
	t.Helper()
	program, args := judge()
	if program == "" {
		var err error
		if program, err = buildOnce(); err != nil {
			t.Fatal(err)
		}
		args = []string{"--manifests=" + dir, "--hostname-override=node-1", "-v=2"}
	}
	d := &daemon{t: t, log: &journal{}, done: make(chan error, 1)}
	d.cmd = node.Command(context.WithoutCancel(t.Context()), program, append(args, flags...)...)
	d.cmd.Stderr = d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.done <- d.cmd.Wait() }()
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("what the proxy wrote:\n%s", d.log)
		}
	})
	return d
}

// stop ends the program as an orderly system does. Its rules stay.
func (d *daemon) stop() {
	d.t.Helper()
	if d.over {
		return
	}
	d.over = true
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Errorf("stop kube-vmap: %v", err)
	}
	if err := <-d.done; err != nil && kubeProxy == "" {
		d.t.Errorf("kube-vmap ended with %v", err)
	}
}

// journal takes in what a program writes.
type journal struct {
	mu  stdsync.Mutex
	all bytes.Buffer
}

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(b)
}

// String is all that was written.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.String()
}
