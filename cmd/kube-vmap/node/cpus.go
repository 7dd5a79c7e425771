package node

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// cpus is the number of the machine's CPUs that are online. runtime.NumCPU knows
// only those that this process may use, which are few where kubelet pins it to
// some, while all of them bring connections. It has to do where /sys does not
// tell.
func (h *host) cpus() int {
	text, err := os.ReadFile(filepath.Join(h.root, "sys/devices/system/cpu/online"))
	if n, ok := countList(strings.TrimSpace(string(text))); err == nil && ok {
		return n
	}
	return runtime.NumCPU()
}

// countList counts the numbers in a list such as "0-3,8,10-11", the kernel's
// format for CPUs.
func countList(list string) (n int, ok bool) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			return 0, false
		}
		last, err := strconv.Atoi(to)
		if err != nil || last < first {
			return 0, false
		}
		n += last - first + 1
	}
	return n, true
}
