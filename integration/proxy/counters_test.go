package proxy

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
)

// counters are the kernel's counters of a host, by name: those of TCP (netstat), and those of
// connection tracking.
type counters map[string]int

func count(t *testing.T, h *lab.Host) counters {
	t.Helper()
	c := counters{}
	err := h.Do(func() error {
		tracking := c.read("/proc/thread-self/net/stat/nf_conntrack", 16)
		if os.IsNotExist(tracking) {
			tracking = nil // nothing is tracked in this namespace
		}
		return errors.Join(c.read("/proc/thread-self/net/netstat", 10), tracking)
	})
	if err != nil {
		t.Fatalf("read counters of %s: %v", h.Name, err)
	}
	return c
}

// since returns by how much a counter has grown; zero if this kernel does not have it.
func (c counters) since(before counters, name string) int { return c[name] - before[name] }

// read reads tables: a line of names, and lines of values that are added up. The first column of
// netstat is the name of its table.
func (c counters) read(path string, base int) error {
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
