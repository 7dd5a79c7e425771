package node

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"k8s.io/utils/cpuset"
)

// cpus returns the number of online CPUs of the machine, which all handle connections.
// runtime.NumCPU, the fallback, returns only those that this process may use, which kubelet
// may limit.
func (h *host) cpus() int {
	text, err := os.ReadFile(filepath.Join(h.root, "sys/devices/system/cpu/online"))
	online, parseErr := cpuset.Parse(strings.TrimSpace(string(text)))
	if err != nil || parseErr != nil || online.IsEmpty() {
		return runtime.NumCPU()
	}
	return online.Size()
}
