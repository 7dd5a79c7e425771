// Package process runs a program in the network namespace of a lab's host, as a
// supervisor would: it starts the program, reads its log and ends it. Package
// daemon adds what tests of kube-vmap on a folder of manifests need.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
)

// Config describes a program to run.
type Config struct {
	// Program is a path, or the name of a program in PATH.
	Program string
	Args    []string
	Host    *lab.Host
	// Env is added to this process's environment.
	Env []string
	// Attributes are the rights and groups of the process; nil means this process's.
	Attributes *syscall.SysProcAttr
}

// Process is a program that was started. Its methods may be called concurrently.
type Process struct {
	// Log is what the process writes to stderr, Stdout what it writes to stdout.
	Log, Stdout *Log

	cmd  *lab.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // of Wait, once done is closed
}

// Start starts a program. The caller must end it, by [Process.Stop] or
// [Process.Kill]. It is killed at the latest when the host closes or ctx ends.
func Start(ctx context.Context, c Config) (*Process, error) {
	p := &Process{Log: &Log{}, Stdout: &Log{}, done: make(chan struct{})}
	p.cmd = c.Host.Command(ctx, c.Program, c.Args...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = p.Stdout, p.Log, c.Attributes
	p.cmd.Env = append(os.Environ(), c.Env...)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", c.Program, c.Host, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// ErrEnded is returned for a process that does not run any more.
var ErrEnded = errors.New("the process ended")

// Await calls try until it returns nil. It gives up when ctx or the process ends;
// the error then holds the end of the log. what is the condition, for that error.
func (p *Process) Await(ctx context.Context, what string, try func() error) error {
	alive, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.done:
			cancel(ErrEnded)
		case <-alive.Done():
		}
	}()
	err := eventually.Try(alive, try)
	if err == nil || p.Ended() && try() == nil { // its last line may be the one
		return nil
	}
	if p.Ended() {
		err = errors.Join(err, p.err)
	}
	return fmt.Errorf("wait for %s: %w\n%s", what, err, p.Log.Tail())
}

// Within is [Process.Await] for at most this long.
func (p *Process) Within(ctx context.Context, timeout time.Duration, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.Await(ctx, what, try)
}

// AwaitLog waits for a log line for which match returns true, from the n-th line
// on, and returns it.
func (p *Process) AwaitLog(ctx context.Context, n int, what string, match func(Entry) bool) (found Entry, err error) {
	err = p.Await(ctx, what, func() error {
		for _, e := range p.Log.Entries(n) {
			if match(e) {
				found = e
				return nil
			}
		}
		return errors.New("no such line in the log")
	})
	return found, err
}

// Message returns a condition for [Process.AwaitLog]: the line has this message.
func Message(text string) func(Entry) bool {
	return func(e Entry) bool { return e.Message() == text }
}

// Stop sends SIGTERM and waits. An exit code other than 0 is an error.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Wait()
}

// Kill sends SIGKILL and waits.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // it may have ended by itself
	<-p.done
}

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits until the process ends and returns the error that it ended with.
func (p *Process) Wait() error {
	<-p.done
	if p.err != nil {
		return fmt.Errorf("%w: %w\n%s", ErrEnded, p.err, p.Log.Tail())
	}
	return nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitError returns the error that an ended process ended with.
func (p *Process) ExitError() error { return p.err }
