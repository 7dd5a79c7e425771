package masquerade

import (
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
		if err := c.readTCP(); err != nil {
			return err
		}
		return c.readTracking()
	})
	if err != nil {
		return nil, fmt.Errorf("read counters of %s: %w", h.Name, err)
	}
	return c, nil
}

// Since returns by how much a counter has grown; zero if this kernel does not have it.
func (c Counters) Since(before Counters, name string) int { return c[name] - before[name] }

// readTCP reads pairs of lines, "TcpExt: names" and "TcpExt: values".
func (c Counters) readTCP() error {
	b, err := os.ReadFile("/proc/thread-self/net/netstat")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		if err := c.add(strings.Fields(lines[i])[1:], strings.Fields(lines[i+1])[1:], 10); err != nil {
			return err
		}
	}
	return nil
}

// readTracking reads a line of names, and one of hexadecimal values for each processor.
func (c Counters) readTracking() error {
	b, err := os.ReadFile("/proc/thread-self/net/stat/nf_conntrack")
	if os.IsNotExist(err) {
		return nil // nothing is tracked in this namespace
	}
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for _, line := range lines[1:] {
		if err := c.add(strings.Fields(lines[0]), strings.Fields(line), 16); err != nil {
			return err
		}
	}
	return nil
}

func (c Counters) add(names, values []string, base int) error {
	for i := range min(len(names), len(values)) {
		n, err := strconv.ParseInt(values[i], base, 64)
		if err != nil {
			return err
		}
		c[names[i]] += int(n)
	}
	return nil
}
