package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/process"
)

// arguments are the flags of kube-vmap, apart from the folder. Debug messages have
// the batches.
var arguments = []string{
	"--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48",
	"--hostname-override", "node-1",
	"-v", "4",
	// Settings of the machine, not of the namespace, stay as they are.
	"--conntrack-max-per-core", "0", "--oom-score-adj", "0",
}

// proxy is kube-vmap running in the node's network namespace.
type proxy struct {
	*process.Process
	read int // lines of the log
	// expected is a warning that is no failure.
	expected string
}

// startProxy starts the program, in a process group of its own: Ctrl-C at the
// terminal ends the demo, which then ends the program.
func startProxy(node *lab.Node, program string, manifests folder) (*proxy, error) {
	p, err := process.Start(context.Background(), process.Config{
		Program: program, Args: append([]string{"--manifests", string(manifests)}, arguments...),
		Host: node.Host, Attributes: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, err
	}
	return &proxy{Process: p}, nil
}

// update is what kube-vmap logged about a change.
type update struct {
	process.Entry
	line     string // without time and level
	commands string // the batch as nft commands; empty if there was none
}

// Messages of kube-vmap's log.
const (
	applied  = "applied"
	noChange = "nothing to change"
	repaired = "repaired tables changed by another program"
	batch    = "batch" // before applied
)

// await waits for a line with one of the messages. Any other warning or error
// meanwhile is an error.
func (p *proxy) await(ctx context.Context, messages ...string) (u update, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("kube-vmap logged nothing within %s", timeout))
	defer cancel()
	var failure error
	if eventually.Try(ctx, func() error {
		var found bool
		if found, failure = p.next(&u, messages); !found && failure == nil {
			return errors.New("not in the log")
		}
		return nil
	}) != nil {
		return u, context.Cause(ctx)
	}
	return u, failure
}

// next reads the log up to a line with one of the messages.
func (p *proxy) next(u *update, messages []string) (found bool, err error) {
	ended := p.Ended()
	lines := p.Log.Lines(p.read)
	for i, e := range p.Log.Entries(p.read)[:len(lines)] {
		p.read++
		if e.IsProblem() && e.Message() != p.expected {
			if ended && len(lines) == 1 {
				return false, fmt.Errorf("kube-vmap ended: %s", lines[i])
			}
			return false, fmt.Errorf("kube-vmap reports a problem: %s", lines[i])
		}
		if e.Message() == batch {
			u.commands = e["commands"]
		}
		if slices.Contains(messages, e.Message()) {
			u.Entry, u.line = e, withoutTime(lines[i])
			return true, nil
		}
	}
	if ended {
		return false, fmt.Errorf("kube-vmap ended: %w", p.ExitError())
	}
	return false, nil
}

// withoutTime returns a log line without its time and level.
func withoutTime(line string) string {
	_, line, _ = strings.Cut(line, "msg=")
	if quoted, err := strconv.QuotedPrefix(line); err == nil {
		message, _ := strconv.Unquote(quoted)
		return message + line[len(quoted):]
	}
	return line
}

// idle returns an error if kube-vmap has sent another batch since the last await.
func (p *proxy) idle() error {
	var u update
	found, err := p.next(&u, []string{applied})
	if found {
		return fmt.Errorf("kube-vmap sent more than it had to: %s", u.line)
	}
	return err
}

// stop ends kube-vmap with SIGTERM, and kills it if that takes too long.
func (p *proxy) stop() error {
	force := time.AfterFunc(timeout, p.Kill)
	defer force.Stop()
	if err := p.Process.Stop(); err != nil {
		return fmt.Errorf("stop kube-vmap: %w", err)
	}
	return nil
}
