package proxy

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/lab"
)

// runNFT runs the nft program on a host and returns what it prints. It must have no
// complaint.
func runNFT(t *testing.T, h *lab.Host, args ...string) string {
	t.Helper()
	cmd := h.Command(t.Context(), "nft", args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		t.Fatalf("nft %s: %v\n%s", strings.Join(args, " "), err, &complaints)
	}
	return out.String()
}

// listing is a host's whole rule set as nft lists it, the blocks of each table
// sorted: nft lists them in the order in which they were made.
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
