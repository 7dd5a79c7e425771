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

	"kube-vmap/model"
	"kube-vmap/nft/kernel/kubeproxy"
	"kube-vmap/nft/kernel/xtables"
)

// timeout limits all programs together; each waits up to lockWait seconds for the lock of
// iptables.
const (
	timeout  = time.Minute
	lockWait = "5"
)

// backend is legacy iptables for one IP family.
type backend struct {
	family  model.Family
	program string
	// names is the file in which the kernel lists the tables, below /proc/net.
	names string
}

var backends = [...]backend{
	{family: model.IPv4, program: "iptables-legacy", names: "ip_tables_names"},
	{family: model.IPv6, program: "ip6tables-legacy", names: "ip6_tables_names"},
}

// A source is where legacy tables are looked for without the programs.
type source struct {
	// proc has the kernel's lists of tables.
	proc string
	// chains returns the chains of a table.
	chains func(model.Family, string) ([]xtables.Chain, error)
}

// kernel is the source for the calling thread's network namespace. It does not use /proc/net,
// which belongs to the process's first thread.
var kernel = source{"/proc/thread-self/net", readChains}

// maxTable limits the memory for reading a table, which must be read as a whole. A larger one
// counts as one that cannot be read; few programs but kube-proxy write that many rules.
const maxTable = 16 << 20 // bytes

func readChains(f model.Family, table string) ([]xtables.Chain, error) {
	t, err := xtables.ReadTableUpTo(f, table, maxTable)
	if err != nil {
		return nil, err
	}
	return t.Chains()
}

// A changer returns commands for iptables-restore that change a table, and a description of
// them for a log. Without commands nothing is done.
type changer func(t *saved) (commands []string, what string)

// change changes the tables of both families that exist, each in one transaction, and
// returns what it did. A table that cannot be changed does not stop the others. Tables
// with chains of kube-proxy whose rules are not known, because the programs are not installed,
// are in unknown: "iptables-legacy nat filter".
func change(ctx context.Context, from source, verb string, fn changer) (done, unknown []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, b := range backends {
		tables, e := b.tables(from.proc)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		if len(tables) > 0 && !b.installed() {
			if tables = b.used(from, tables); len(tables) > 0 {
				unknown = append(unknown, b.program+" "+strings.Join(tables, " "))
			}
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

// used returns the tables that have chains of kube-proxy, and those that cannot be read, with the
// reason.
func (b backend) used(from source, tables []string) (used []string) {
	for _, name := range tables {
		chains, err := from.chains(b.family, name)
		switch {
		case err != nil:
			used = append(used, fmt.Sprintf("%s (%s)", name, err))
		case slices.ContainsFunc(chains, func(c xtables.Chain) bool { return kubeproxy.IsChain(name, c.Name) }):
			used = append(used, name)
		}
	}
	return used
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
