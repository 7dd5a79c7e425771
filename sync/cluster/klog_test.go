package cluster_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"kube-vmap/sync/cluster"
)

// TestKlogIsRouted is about the whole process, so it puts back what it changes.
func TestKlogIsRouted(t *testing.T) {
	var out safeBuffer
	defer cluster.RouteKlog(slog.New(slog.DiscardHandler), 0)
	cluster.RouteKlog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-4)})), 4)
	klog.V(4).InfoS("shown", "key", "value")
	klog.V(5).InfoS("hidden")
	klog.ErrorS(errors.New("bad"), "failed")
	klog.Background().V(4).Info("shown, too")
	klog.Background().V(5).Info("hidden, too")
	text := out.String()
	for _, want := range []string{"level=DEBUG msg=shown key=value", "level=ERROR msg=failed err=bad", `msg="shown, too"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing from:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hidden") {
		t.Errorf("too much is shown:\n%s", text)
	}
}
