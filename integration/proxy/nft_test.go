package proxy

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
)

// runNFT runs nft on a host and returns its output. Output on stderr fails the test.
func runNFT(t *testing.T, h *lab.Host, args ...string) string {
	t.Helper()
	cmd := h.Command(t.Context(), "nft", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("nft %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

// listing returns a host's rule set as nft lists it, with the blocks of each table
// sorted: nft lists them in the order in which they were created.
func listing(t *testing.T, h *lab.Host) string {
	t.Helper()
	var tables []string
	for table := range strings.SplitAfterSeq(runNFT(t, h, "-s", "list", "ruleset"), "\n}\n") {
		head, body, _ := strings.Cut(strings.TrimSuffix(table, "}\n"), "{\n")
		blocks := strings.Split(strings.TrimRight(body, "\n"), "\n\n")
		slices.Sort(blocks)
		tables = append(tables, head+"{\n"+strings.Join(blocks, "\n\n")+"\n}\n")
	}
	slices.Sort(tables)
	return strings.Join(tables, "")
}
