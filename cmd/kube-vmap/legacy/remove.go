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

	"kube-vmap/nft/kernel/leftovers"
)

// patience is the longest that all programs together may take; each waits up to
// lockWait seconds for others to let go of iptables.
const (
	patience = time.Minute
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

// Remove removes kube-proxy's rules and chains from the legacy backend of
// iptables in the calling thread's network namespace. The result names, for a
// log, what is gone. If there may be something but the programs are missing, a
// warning in the log says what to do, and there is no error.
//
// It belongs after the first commit of our own rules, and before
// [leftovers.Remove].
func Remove(ctx context.Context, log *slog.Logger) (removed []string, err error) {
	// Not /proc/net, which is that of the process's first thread.
	return remove(ctx, "/proc/thread-self/net", log)
}

func remove(ctx context.Context, proc string, log *slog.Logger) (removed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var unseen []string
	for _, b := range backends {
		tables, e := b.tables(proc)
		switch {
		case e != nil:
			err = errors.Join(err, e)
		case len(tables) > 0 && !b.atHand():
			unseen = append(unseen, b.program+" "+strings.Join(tables, " "))
		default:
			names, e := b.remove(ctx, tables)
			removed, err = append(removed, names...), errors.Join(err, e)
		}
	}
	if len(unseen) > 0 {
		warn(log, unseen)
	}
	return removed, err
}

// warn says what to do on a node where rules may be that we cannot reach.
func warn(log *slog.Logger, tables []string) {
	log.Warn("this kernel has legacy iptables tables, and there is no iptables-legacy here to look for rules of kube-proxy; "+
		"if kube-proxy used them on this node, remove what it left by hand, or restart the node",
		"tables", tables,
		"look", "iptables-legacy-save | grep KUBE-SERVICES; ip6tables-legacy-save | grep KUBE-SERVICES",
		"remove", "kube-proxy --cleanup (on the node, or privileged and with the host's network in kube-proxy's image)")
}

// tables lists the tables that are there and in which kube-proxy may have been. A
// kernel without legacy iptables has no such file.
func (b backend) tables(proc string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(proc, b.names))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for legacy iptables tables: %w", err)
	}
	names := strings.Fields(string(text))
	return slices.DeleteFunc(slices.Clone(leftovers.IPTablesNames), func(name string) bool {
		return !slices.Contains(names, name)
	}), nil
}

func (b backend) atHand() bool {
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

// removeTable says what it removed, nothing if there was nothing.
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

// run returns what a program printed; if it fails, the error has what it
// complained about.
func run(ctx context.Context, stdin, program string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &complaint
	if err := cmd.Run(); err != nil {
		said := strings.Join(strings.Fields(complaint.String()), " ")
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, said)
	}
	return out.String(), nil
}
