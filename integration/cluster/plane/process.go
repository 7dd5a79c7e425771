package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"kube-vmap/integration/lab"
)

// process is a running program of the plane. Its methods do nothing on nil.
type process struct {
	name, log string
	cmd       *lab.Cmd
	done      chan struct{} // closed when it has ended
	err       error         // of Wait, once done is closed
}

// run starts a program of the plane in its namespace, and appends its output to its log.
func (p *Plane) run(name string, flags []string) (*process, error) {
	s := &process{name: name, log: p.file(name + ".log"), done: make(chan struct{})}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	s.cmd = p.options.Host.Command(context.Background(), filepath.Join(p.programs, name), flags...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = log, log, p.dir
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C ends only this process, which then cleans up
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	return s, nil
}

// kill kills the process and waits until it has ended.
func (s *process) kill() {
	if s == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended by itself
	<-s.done
}

// tailLines is how many lines of a log are printed.
const tailLines = 30

// information matches log lines that are no problem.
var information = regexp.MustCompile(`^I\d{4} |because it has no resources\.$|(operation was canceled|use of closed network connection)"$`)

// tail returns the end of the process's log, without lines that are no problem.
func (s *process) tail() string {
	if s == nil {
		return ""
	}
	text, err := os.ReadFile(s.log)
	if err != nil {
		return fmt.Sprintf("--- log of %s: %v\n", s.name, err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool {
		return information.MatchString(strings.TrimSuffix(line, "\n"))
	})
	return fmt.Sprintf("--- end of the log of %s\n%s", s.name, strings.Join(lines[max(0, len(lines)-tailLines):], ""))
}

// pause is the interval of polling.
const pause = 20 * time.Millisecond

// await polls until ready returns no error, the process ends, or ctx does.
func (p *Plane) await(ctx context.Context, s *process, ready func(context.Context) error) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("%s ended: %w", s.name, errors.Join(s.err, err))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w", s.name, ctx.Err(), err)
		case <-ticker.C:
		}
	}
}
