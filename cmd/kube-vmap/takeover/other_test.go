package takeover

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOtherProxyMustBeGoneTwiceInARow has the results of each poll.
func TestOtherProxyMustBeGoneTwiceInARow(t *testing.T) {
	const yes, no = true, false
	for _, polls := range [][]bool{{no}, {yes, no, no}, {yes, yes, no, yes, no, no}} {
		synctest.Test(t, func(t *testing.T) {
			start, n := time.Now(), 0
			alone := waitUntilAlone(t.Context(), func() bool { n++; return polls[n-1] })
			if took := time.Since(start); !alone || n != len(polls) || took != time.Duration(n-1)*pollPeriod {
				t.Errorf("of %v, alone is %t after %d polls and %v", polls, alone, n, took)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if waitUntilAlone(ctx, func() bool { cancel(); return true }) {
		t.Error("the other proxy counts as gone")
	}
}

// TestOnlyAKubeProxyOfOurNetworkNamespaceIsThisNodes has processes of a proc file system.
func TestOnlyAKubeProxyOfOurNetworkNamespaceIsThisNodes(t *testing.T) {
	for _, tc := range []struct{ name, namespace, want string }{
		{"kube-proxy", "net:[1]", "process 7 is a kube-proxy"},
		{"kube-proxy", "net:[2]", ""},
		{"kube-proxy", "", ""}, // cannot be read
		{"other", "net:[1]", ""},
	} {
		proc := t.TempDir()
		for process, namespace := range map[string]string{"thread-self": "net:[1]", "7": tc.namespace} {
			if err := os.MkdirAll(filepath.Join(proc, process, "ns"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(proc, process, "comm"), []byte(tc.name+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if namespace == "" {
				continue
			}
			if err := os.Symlink(namespace, filepath.Join(proc, process, "ns", "net")); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		n := &node{Config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		for range 2 {
			if got := n.otherProcess(proc); got != tc.want {
				t.Errorf("%+v: other proxy %q", tc, got)
			}
		}
		if unknown := strings.Count(log.String(), "cannot be read"); unknown != 0 != (tc.namespace == "") || unknown > 1 {
			t.Errorf("%+v: log\n%s", tc, &log)
		}
	}
}
