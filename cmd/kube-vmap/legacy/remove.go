package legacy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

// Remove removes kube-proxy's rules and chains from the legacy backend of iptables in the
// calling thread's network namespace, and returns what it removed, for a log. If there are
// tables but no programs, it logs a warning with the manual steps, and returns no error.
//
// Call it after the first commit of our own rules, and before [kubeproxy.Remove].
func Remove(ctx context.Context, log *slog.Logger) (removed []string, err error) {
	// Not /proc/net, which belongs to the process's first thread.
	return remove(ctx, "/proc/thread-self/net", log)
}

func remove(ctx context.Context, proc string, log *slog.Logger) (removed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var unknown []string
	for _, b := range backends {
		tables, e := b.tables(proc)
		switch {
		case e != nil:
			err = errors.Join(err, e)
		case len(tables) > 0 && !b.installed():
			unknown = append(unknown, b.program+" "+strings.Join(tables, " "))
		default:
			names, e := b.remove(ctx, tables)
			removed, err = append(removed, names...), errors.Join(err, e)
		}
	}
	if len(unknown) > 0 {
		warn(log, unknown)
	}
	return removed, err
}

// warn logs the manual steps for a node that may have rules that we cannot read.
func warn(log *slog.Logger, tables []string) {
	log.Warn("the kernel has legacy iptables tables, and iptables-legacy is not installed; "+
		"if kube-proxy used them on this node, remove its rules manually, or restart the node",
		"tables", tables,
		"look", "iptables-legacy-save | grep KUBE-SERVICES; ip6tables-legacy-save | grep KUBE-SERVICES",
		"remove", "kube-proxy --cleanup (on the node, or privileged and with the host's network in kube-proxy's image)")
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

func (b backend) remove(ctx context.Context, tables []string) (removed []string, err error) {
	for _, name := range tables {
		what, e := b.removeTable(ctx, name)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("remove kube-proxy's chains from table %s of %s: %w", name, b.program, e))
		} else if what != "" {
			removed = append(removed, fmt.Sprintf("%s %s: %s", b.program, name, what))
		}
	}
	return removed, err
}

// removeTable returns what it removed; empty if there was nothing.
func (b backend) removeTable(ctx context.Context, name string) (string, error) {
	text, err := run(ctx, "", b.program+"-save", "-t", name)
	if err != nil {
		return "", err
	}
	t, err := parse(name, text)
	if err != nil {
		return "", err
	}
	p := t.Plan()
	if p.IsEmpty() {
		return "", nil
	}
	if _, err := run(ctx, t.restore(p), b.program+"-restore", "--noflush", "-w", lockWait); err != nil {
		return "", err
	}
	return p.String(), nil
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
