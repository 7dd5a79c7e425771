package takeover

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/programs"
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

func TestOnlyAKubeProxyOfOurNetworkNamespaceIsThisNodes(t *testing.T) {
	for _, tc := range []struct {
		process programs.Process
		want    string
		logged  int
	}{
		{programs.Process{PID: 7, Name: "kube-proxy", Here: true}, "process 7 is a kube-proxy", 0},
		{programs.Process{PID: 7, Name: "kube-proxy", Elsewhere: true}, "", 0},
		{programs.Process{PID: 7, Name: "kube-proxy"}, "", 1},
		{programs.Process{PID: 7, Name: "other", Here: true}, "", 0},
	} {
		var log bytes.Buffer
		n := &node{Config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		for range 2 {
			if got := n.otherProcess([]programs.Process{tc.process}); got != tc.want {
				t.Errorf("%+v: other proxy %q", tc, got)
			}
		}
		if unknown := strings.Count(log.String(), "cannot be read"); unknown != tc.logged {
			t.Errorf("%+v: log\n%s", tc, &log)
		}
	}
}
