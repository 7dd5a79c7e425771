package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// sysctl is a setting under /proc/sys/net of one network namespace.
type sysctl struct{ key, value string }

// hostSysctls make a host predictable. New interfaces inherit "default".
var hostSysctls = []sysctl{
	// Allow asymmetric routes.
	{"ipv4/conf/all/rp_filter", "0"},
	{"ipv4/conf/default/rp_filter", "0"},
	// Addresses work immediately.
	{"ipv6/conf/all/disable_ipv6", "0"},
	{"ipv6/conf/default/disable_ipv6", "0"},
	{"ipv6/conf/all/accept_dad", "0"},
	{"ipv6/conf/default/accept_dad", "0"},
	// Only the lab sets routes, even if a packet leaves by the interface it came from.
	{"ipv6/conf/default/accept_ra", "0"},
	{"ipv6/conf/default/accept_redirects", "0"},
	{"ipv4/conf/all/accept_redirects", "0"},
	{"ipv4/conf/default/accept_redirects", "0"},
	// No rate limit for ICMP errors, so that every refusal is reported. IPv6 needs a
	// non-empty list of limited types, so it has a reserved one.
	{"ipv4/icmp_ratemask", "0"},
	{"ipv6/icmp/ratemask", "127"},
}

// nodeSysctls also make a host a router.
var nodeSysctls = []sysctl{
	{"ipv4/ip_forward", "1"},
	{"ipv6/conf/all/forwarding", "1"},
	{"ipv6/conf/default/forwarding", "1"},
	{"ipv4/conf/all/send_redirects", "0"},
	{"ipv4/conf/default/send_redirects", "0"},
}

// set writes settings. /proc/sys/net belongs to the namespace of the thread that
// opens a file there.
func (h *Host) set(settings []sysctl) error {
	return h.Do(func() error {
		for _, s := range settings {
			if err := os.WriteFile(filepath.Join("/proc/sys/net", s.key), []byte(s.value), 0); err != nil {
				return fmt.Errorf("set sysctl %s of %s: %w", s.key, h.Name, err)
			}
		}
		return nil
	})
}
