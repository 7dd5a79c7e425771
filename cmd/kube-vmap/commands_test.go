package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"kube-vmap/cmd/inspect/exit"
)

// completions returns what shells are offered for a command line.
func completions(t *testing.T, line ...string) []string {
	t.Helper()
	var out bytes.Buffer
	root := rootCommand(&out, io.Discard)
	root.SetArgs(append([]string{"__completeNoDesc"}, line...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSpace(out.String()), "\n")
	return slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, ":") }) // a directive
}

func TestCompletionOffersCommandsFlagsAndValues(t *testing.T) {
	for _, c := range []struct{ line, want []string }{
		{[]string{"cl"}, []string{"cleanup"}},
		{[]string{"completion", ""}, []string{"bash", "fish", "powershell", "zsh"}},
		{[]string{"--detect-local-m"}, []string{"--detect-local-mode"}},
		{[]string{"--proxy-mode", ""}, []string{"iptables", "ipvs", "nftables"}},
		{[]string{"--detect-local-mode="}, []string{"BridgeInterface", "ClusterCIDR", "InterfaceNamePrefix", "NodeCIDR"}},
		{[]string{"render", "--ipvs-scheduler", ""}, []string{"lc", "mh", "random", "rr", "sh"}},
		{[]string{"get", "-o", ""}, []string{"json", "name", "wide", "yaml"}},
		{[]string{"top", "--sort", ""}, []string{"active", "connections", "endpoints", "fast-path", "namespace", "rate", "service", "status"}},
	} {
		if got := completions(t, c.line...); !slices.Equal(slices.Sorted(slices.Values(got)), c.want) {
			t.Errorf("kube-vmap %s is completed to %q, want %q", strings.Join(c.line, " "), got, c.want)
		}
	}
}

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
