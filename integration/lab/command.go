package lab

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"syscall"
)

// Cmd is an [exec.Cmd] that runs in a host's network namespace, with the file system
// of the machine.
type Cmd struct {
	*exec.Cmd
	host    *Host
	stop    context.CancelFunc
	release func() error
}

// Command returns a command. The process, but not its children, is killed when ctx
// ends, the host closes or this process dies in any way. The caller must wait for it
// also then.
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
	// The kernel sends the signal when the starting thread ends. Threads of the lab
	// end only if they cannot be returned to their network namespace.
	attributes := syscall.SysProcAttr{}
	if c.SysProcAttr != nil {
		attributes = *c.SysProcAttr // the caller may share it
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

// Output is [exec.Cmd.Output], in the namespace, but does not keep stderr.
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
