package lab

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"syscall"
)

// Cmd is an [exec.Cmd] that runs in a host's network namespace. Its file system
// is the machine's own.
type Cmd struct {
	*exec.Cmd
	host    *Host
	stop    context.CancelFunc
	release func() error
}

// Command prepares a command. The process is killed when ctx ends, the host
// closes or this process dies, however it does; who started it must wait for it
// also then. Processes of its own are not killed with it.
func (h *Host) Command(ctx context.Context, name string, args ...string) *Cmd {
	ctx, stop := context.WithCancel(ctx)
	return &Cmd{Cmd: exec.CommandContext(ctx, name, args...), host: h, stop: stop}
}

// Start is [exec.Cmd.Start], in the namespace.
func (c *Cmd) Start() (err error) {
	c.release, err = c.host.cleanup.add(func() error { c.stop(); return nil })
	if err != nil {
		return err
	}
	// The signal comes when the thread ends that started it, and threads of the
	// lab end only if they cannot be brought back to where they were.
	attributes := syscall.SysProcAttr{}
	if c.SysProcAttr != nil {
		attributes = *c.SysProcAttr // the caller may use it for others, too
	}
	attributes.Pdeathsig = syscall.SIGKILL
	c.SysProcAttr = &attributes
	if err := c.host.Do(c.Cmd.Start); err != nil {
		return errors.Join(err, c.release())
	}
	return nil
}

// Wait is [exec.Cmd.Wait].
func (c *Cmd) Wait() error { return errors.Join(c.Cmd.Wait(), c.release()) }

// Run is [exec.Cmd.Run], in the namespace.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output is [exec.Cmd.Output], in the namespace, without keeping stderr.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput is [exec.Cmd.CombinedOutput], in the namespace.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}
