package masquerade

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"kube-vmap/integration/lab"
)

// Counters are the kernel's counters of a host, by name: those of TCP (netstat), and those of
// connection tracking.
type Counters map[string]int

// Count reads them.
func Count(h *lab.Host) (Counters, error) {
	c := Counters{}
	err := h.Do(func() error {
		tracking := c.read("/proc/thread-self/net/stat/nf_conntrack", 16)
		if os.IsNotExist(tracking) {
			tracking = nil // nothing is tracked in this namespace
		}
		return errors.Join(c.read("/proc/thread-self/net/netstat", 10), tracking)
	})
	if err != nil {
		return nil, fmt.Errorf("read counters of %s: %w", h.Name, err)
	}
	return c, nil
}

// Since returns by how much a counter has grown; zero if this kernel does not have it.
func (c Counters) Since(before Counters, name string) int { return c[name] - before[name] }

// read reads tables: a line of names, and lines of values that are added up. The first column of
// netstat is the name of its table.
func (c Counters) read(path string, base int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if _, err := strconv.ParseInt(fields[len(fields)-1], base, 64); err != nil {
			names = fields
			continue
		}
		for i := range min(len(names), len(fields)) {
			n, _ := strconv.ParseInt(fields[i], base, 64)
			c[names[i]] += int(n)
		}
	}
	return nil
}
