package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// SetOOMScoreAdj sets how likely the kernel kills this process when memory runs out: from
// -1000, never, to 1000. Lowering it needs CAP_SYS_RESOURCE. As in kube-proxy, an error is
// no reason to end.
func SetOOMScoreAdj(adj int) error {
	h := host{root: "/", write: os.WriteFile}
	return h.setOOMScoreAdj(adj)
}

func (h *host) setOOMScoreAdj(adj int) error {
	path := filepath.Join(h.root, "proc/self/oom_score_adj")
	is, _, err := readNumber(path)
	if err != nil {
		return fmt.Errorf("read oom_score_adj: %w", err)
	}
	if is == adj {
		return nil
	}
	if err := h.write(path, []byte(strconv.Itoa(adj)), 0); err != nil {
		return fmt.Errorf("set oom_score_adj, which is %d, to %d (lower values need CAP_SYS_RESOURCE): %w", is, adj, err)
	}
	return nil
}
