package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestRelayReturnsTheMachineResult(t *testing.T) {
	for _, tt := range []struct {
		says, want string // want is the error, or none
	}{
		{"ok\r\nsuites that failed: 0\r\n", ""},
		{"FAIL\r\nsuites that failed: 2\r\n", "2 suites failed"},
		{"ok\r\nsuites that failed: ", " suites failed"},
		{"ok\r\n", errDied.Error()},
		{"", errDied.Error()},
	} {
		var out bytes.Buffer
		err := relay(&out, strings.NewReader(tt.says))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.says, got, tt.want)
		}
		if strings.Contains(out.String(), "\r") || strings.Contains(out.String(), "suites that") {
			t.Errorf("%q is printed as %q", tt.says, out.String())
		}
	}
}

func TestKernelWarningsAreErrors(t *testing.T) {
	console := filepath.Join(t.TempDir(), "console")
	for text, fine := range map[string]bool{
		"[    0.5] acpi PNP0A03:00: fail to add MMCONFIG information\n":                          true,
		"[    0.1] Spectre V2 : WARNING: Unprivileged eBPF is enabled\n":                         true,
		"[   12.4] ------------[ cut here ]------------\n[   12.4] WARNING: net/core/dev.c:1\n":  false,
		"[   20.0] rcu: INFO: rcu_preempt self-detected stall on CPU\n":                          false,
		"[   33.1] unregister_netdevice: waiting for lo to become free. Usage count = 2\n":       false,
		"[  242.8] INFO: task kworker/u2:1:34 blocked for more than 120 seconds.\n":              false,
		"[   19.3] WARNING: CPU: 0 PID: 100 at net/netfilter/nf_tables_api.c:2049\n":             false,
		"[   19.3] BUG: kernel NULL pointer dereference\n[    4.2] Kernel panic - not syncing\n": false,
	} {
		if err := os.WriteFile(console, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := withConsole(nil, console)
		if fine != (err == nil) || !fine && !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestNamedTestsExist finds patterns that no longer match because tests were renamed.
func TestNamedTestsExist(t *testing.T) {
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, s := range suites {
		files, err := filepath.Glob(filepath.Join("..", "..", s.name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var tests []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declaration.FindAllSubmatch(text, -1) {
				tests = append(tests, string(m[1]))
			}
		}
		patterns := alternatives(s.skip)
		if s.sample != everything {
			patterns = append(patterns, alternatives(s.sample)...)
		}
		for _, pattern := range patterns {
			if !slices.ContainsFunc(tests, regexp.MustCompile(pattern).MatchString) {
				t.Errorf("%s: no test matches %q", s.name, pattern)
			}
		}
	}
}

// alternatives returns the patterns of tests in an expression like "^TestA$/case|^Test(B|C)",
// which may have one pair of parentheses, in its last part.
func alternatives(expression string) []string {
	outside, list, ok := strings.Cut(expression, "(")
	parts := strings.Split(outside, "|")
	if ok {
		last := parts[len(parts)-1]
		parts = parts[:len(parts)-1]
		list, after, _ := strings.Cut(list, ")")
		for alternative := range strings.SplitSeq(list, "|") {
			parts = append(parts, last+alternative+after)
		}
	}
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, "/")
	}
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" })
}
