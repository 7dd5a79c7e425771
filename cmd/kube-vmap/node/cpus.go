package node

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// cpus returns the number of online CPUs of the machine, which all handle connections.
// runtime.NumCPU, the fallback, returns only those that this process may use, which kubelet
// may limit.
func (h *host) cpus() int {
	text, err := os.ReadFile(filepath.Join(h.root, "sys/devices/system/cpu/online"))
	if n, ok := countList(strings.TrimSpace(string(text))); err == nil && ok {
		return n
	}
	return runtime.NumCPU()
}

// countList counts the numbers in a list in the kernel's format for CPUs, "0-3,8,10-11".
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
