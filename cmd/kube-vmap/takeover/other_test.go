package takeover

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"kube-vmap/cmd/programs"
)

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
