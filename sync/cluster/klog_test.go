package cluster_test

import (
	"errors"
	"log/slog"
	"strings"
	stdsync "sync"
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

// TestKlogsVerbosityCanChangeAtAnyTime needs the race detector for the half of it.
func TestKlogsVerbosityCanChangeAtAnyTime(t *testing.T) {
	var out safeBuffer
	defer cluster.RouteKlog(slog.New(slog.DiscardHandler), 0)
	cluster.RouteKlog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-9)})), 0)
	var others stdsync.WaitGroup
	for range 2 {
		others.Go(func() {
			for range 1000 {
				klog.V(2).InfoS("now and then")
				klog.Background().V(2).Info("now and then")
			}
		})
	}
	for i := range 1000 {
		cluster.SetKlogVerbosity(i % 5)
	}
	others.Wait()
	cluster.SetKlogVerbosity(4)
	klog.V(4).InfoS("shown")
	cluster.SetKlogVerbosity(3)
	klog.V(4).InfoS("hidden")
	if text := out.String(); !strings.Contains(text, "msg=shown") || strings.Contains(text, "hidden") {
		t.Errorf("what is shown does not follow the verbosity:\n%s", text[max(0, len(text)-500):])
	}
}
