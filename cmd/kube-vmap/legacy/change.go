package legacy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-vmap/nft/kernel/kubeproxy"
)

// timeout limits all programs together; each waits up to lockWait seconds for the lock of
// iptables.
const (
	timeout  = time.Minute
	lockWait = "5"
)

// backend is legacy iptables for one IP family.
type backend struct {
	program string
	// names is the file in which the kernel lists the tables, below /proc/net.
	names string
}

var backends = [...]backend{
	{program: "iptables-legacy", names: "ip_tables_names"},
	{program: "ip6tables-legacy", names: "ip6_tables_names"},
}

// procNet has the kernel's lists of tables. It is not /proc/net, which belongs to the
// process's first thread.
const procNet = "/proc/thread-self/net"

// A changer returns commands for iptables-restore that change a table, and a description of
// them for a log. Without commands nothing is done.
type changer func(t *saved) (commands []string, what string)

// change changes the tables of both families that exist, each in one transaction, and
// returns what it did. A table that cannot be changed does not stop the others. Tables
// that cannot be read, because the programs are not installed, are in unknown:
// "iptables-legacy nat filter".
func change(ctx context.Context, proc, verb string, fn changer) (done, unknown []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, b := range backends {
		tables, e := b.tables(proc)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		if len(tables) > 0 && !b.installed() {
			unknown = append(unknown, b.program+" "+strings.Join(tables, " "))
			continue
		}
		for _, name := range tables {
			what, e := b.changeTable(ctx, name, fn)
			if e != nil {
				err = errors.Join(err, fmt.Errorf("%s table %s of %s: %w", verb, name, b.program, e))
			} else if what != "" {
				done = append(done, what)
			}
		}
	}
	return done, unknown, err
}

// tables returns the existing tables that kube-proxy uses. A kernel without legacy iptables
// has no such file.
func (b backend) tables(proc string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(proc, b.names))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for legacy iptables tables: %w", err)
	}
	names := strings.Fields(string(text))
	return slices.DeleteFunc(slices.Clone(kubeproxy.IPTablesNames), func(name string) bool {
		return !slices.Contains(names, name)
	}), nil
}

func (b backend) installed() bool {
	_, saveErr := exec.LookPath(b.program + "-save")
	_, restoreErr := exec.LookPath(b.program + "-restore")
	return saveErr == nil && restoreErr == nil
}

// changeTable returns what it did; empty if there was nothing to do.
func (b backend) changeTable(ctx context.Context, name string, fn changer) (string, error) {
	text, err := run(ctx, "", b.program+"-save", "-t", name)
	if err != nil {
		return "", err
	}
	t, err := parse(name, text)
	if err != nil {
		return "", err
	}
	t.program = b.program
	commands, what := fn(&t)
	if len(commands) == 0 {
		return "", nil
	}
	if _, err := run(ctx, t.restore(commands), b.program+"-restore", "--noflush", "-w", lockWait); err != nil {
		return "", err
	}
	return t.describe(what), nil
}

// run returns the output of a program; its error has the error output.
func run(ctx context.Context, stdin, program string, args ...string) (string, error) {
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	if err := cmd.Run(); err != nil {
		reason := strings.Join(strings.Fields(errOut.String()), " ")
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, reason)
	}
	return out.String(), nil
}
