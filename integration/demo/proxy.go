package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"kube-vmap/integration/lab"
)

// arguments are how kube-vmap is started, apart from the folder: with the ranges
// of the lab's pods, and talkative enough to show its batches.
var arguments = []string{
	"--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48",
	"--hostname-override", "node-1",
	"-v", "4",
	// What these would set is the machine's, not the namespace's.
	"--conntrack-max-per-core", "0", "--oom-score-adj", "0",
}

// proxy is kube-vmap at work, a process in the node's network namespace.
type proxy struct {
	cmd *lab.Cmd
	log *journal
	err error // of the process; valid once the log has ended
	// expected is a message that would be trouble, were it not expected.
	expected string
}

// startProxy starts the program. The process does not take part in a Ctrl-C at
// the terminal: who started it ends it.
func startProxy(node *lab.Node, program string, manifests folder) (*proxy, error) {
	args := append([]string{"--manifests", string(manifests)}, arguments...)
	p := &proxy{cmd: node.Command(context.Background(), program, args...), log: newJournal()}
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start kube-vmap: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.log.lines)
	}()
	return p, nil
}

// update is what kube-vmap did about what it read in its folder.
type update struct {
	line     entry
	commands string // the batch as nft commands; empty if there was none
}

// What kube-vmap logs when it is done with what it has read.
const (
	applied  = "applied"
	inOrder  = "nothing to change"
	repaired = "repaired tables changed by another program"
	contents = "batch" // before applied: what is about to be sent
)

// await waits for one of the messages. Whatever kube-vmap complains about
// meanwhile is an error.
func (p *proxy) await(ctx context.Context, messages ...string) (update, error) {
	var u update
	late := time.After(patience)
	for {
		select {
		case e, ok := <-p.log.lines:
			if err := p.objection(e, ok); err != nil {
				return u, err
			}
			if e.message() == contents {
				u.commands = e.fields["commands"]
			}
			if slices.Contains(messages, e.message()) {
				u.line = e
				return u, nil
			}
		case <-late:
			return u, fmt.Errorf("kube-vmap did nothing within %s", patience)
		case <-ctx.Done():
			return u, context.Cause(ctx)
		}
	}
}

// quiet says whether kube-vmap has sent anything since it was last awaited.
func (p *proxy) quiet() error {
	for {
		select {
		case e, ok := <-p.log.lines:
			if err := p.objection(e, ok); err != nil {
				return err
			}
			if e.message() == applied {
				return fmt.Errorf("kube-vmap sent more than it had to: %s", e.plain())
			}
		default:
			return nil
		}
	}
}

// objection is what is wrong with a line of the log, or with its end.
func (p *proxy) objection(e entry, ok bool) error {
	if !ok {
		return fmt.Errorf("kube-vmap ended by itself: %v", p.cmd.ProcessState)
	}
	if e.trouble() && e.message() != p.expected {
		return fmt.Errorf("kube-vmap complains: %s", e.line)
	}
	return nil
}

// stop asks kube-vmap to end, and ends it if it does not.
func (p *proxy) stop() error {
	force := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer force.Stop()
	if err := p.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end kube-vmap: %w", err)
	}
	return nil
}

// kill ends kube-vmap without giving it a chance to do anything about it.
func (p *proxy) kill() error {
	err := p.signal(syscall.SIGKILL)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("kill kube-vmap: %w", err)
	}
	return nil
}

// signal sends a signal and waits for the process to end.
func (p *proxy) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	for range p.log.lines {
	}
	return p.err
}
