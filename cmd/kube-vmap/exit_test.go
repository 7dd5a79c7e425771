package main

import (
	"bytes"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/exit"
)

// TestUsageErrorsExitWithTrouble runs commands whose exit code 1 is an answer.
func TestUsageErrorsExitWithTrouble(t *testing.T) {
	for _, command := range []string{"explain", "diff"} {
		for _, word := range []string{"foo", "--foo"} {
			var out, errs bytes.Buffer
			if code := run([]string{command, word}, &out, &errs); code != exit.Trouble || !strings.Contains(errs.String(), "foo") || out.Len() > 0 {
				t.Errorf("kube-vmap %s %s: exit code %d, want %d; printed %q, %q", command, word, code, exit.Trouble, out.String(), errs.String())
			}
		}
	}
}
