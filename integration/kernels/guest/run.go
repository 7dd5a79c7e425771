package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/kernels/plan"
)

// environment is the environment of all suites, before the settings of the plan.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME=/root",
	"TMPDIR=/tmp",
}

// run runs a suite and prints its result in the last line, as `go test` does.
func run(s plan.Suite, settings []string, out io.Writer) (ok bool) {
	cmd := exec.Command(filepath.Join(s.Dir, plan.Program), s.Args...)
	cmd.Dir, cmd.Env = s.Dir, append(environment[:len(environment):len(environment)], settings...)
	cmd.Stdout, cmd.Stderr = out, out
	began := time.Now()
	err := cmd.Start()
	if err == nil {
		err = wait(cmd.Process.Pid)
	}
	took := time.Since(began).Seconds()
	if err != nil {
		_, _ = fmt.Fprintf(out, "%v\nFAIL\t%s\t%.3fs\n", err, s.Package, took)
		return false
	}
	_, _ = fmt.Fprintf(out, "ok  \t%s\t%.3fs\n", s.Package, took)
	return true
}

// wait waits for a child, and for orphaned processes meanwhile, since the first process
// of a machine becomes their parent.
func wait(child int) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && pid != child:
			continue
		case err != nil:
			return fmt.Errorf("wait for a suite: %w", err)
		case status.Signaled():
			return fmt.Errorf("signal: %s", status.Signal())
		case status.ExitStatus() != 0:
			return fmt.Errorf("exit status %d", status.ExitStatus())
		}
		return nil
	}
}
