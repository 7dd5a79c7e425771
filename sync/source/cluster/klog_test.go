package cluster

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	stdsync "sync"
	"testing"

	"k8s.io/client-go/features"
	"k8s.io/klog/v2"

	"kube-vmap/sync/follow/listen/listentest"
)

// TestKlogIsRoutedToSlog also needs the race detector: the verbosity changes while others log.
// It changes the whole process, so it restores the default.
func TestKlogIsRoutedToSlog(t *testing.T) {
	var out listentest.LogBuffer
	defer RouteKlog(slog.New(slog.DiscardHandler), 0)
	RouteKlog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-4)})), 0)
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
		SetKlogVerbosity(i % 5)
	}
	others.Wait()
	SetKlogVerbosity(4)
	klog.V(4).InfoS("shown", "key", "value")
	klog.V(5).InfoS("hidden")
	klog.ErrorS(errors.New("bad"), "failed")
	klog.Background().V(4).Info("shown, too")
	klog.Background().V(5).Info("hidden, too")
	SetKlogVerbosity(3)
	klog.V(4).InfoS("hidden")
	text := out.String()
	text = text[max(0, len(text)-500):]
	for _, want := range []string{"level=DEBUG msg=shown key=value", "level=ERROR msg=failed err=bad", `msg="shown, too"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing from:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hidden") {
		t.Errorf("too much is shown:\n%s", text)
	}
}

// verbosityOfChild makes a process of the test binary log with that verbosity.
const verbosityOfChild = "KUBE_VMAP_TEST_VERBOSITY"

// TestFeatureGatesAreLoggedAtHighVerbosity runs in child processes, because client-go
// logs the gates once per process.
func TestFeatureGatesAreLoggedAtHighVerbosity(t *testing.T) {
	if v, err := strconv.Atoi(os.Getenv(verbosityOfChild)); err == nil {
		RouteKlog(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.Level(-v)})), v)
		features.FeatureGates().Enabled(features.InformerResourceVersion)
		klog.V(klog.Level(v)).InfoS("other lines are shown")
		return
	}
	for verbosity, want := range map[int]bool{0: false, 4: false, 5: true} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
		child.Env = append(os.Environ(), verbosityOfChild+"="+strconv.Itoa(verbosity))
		out, err := child.CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		text := string(out)
		if strings.Contains(text, "Feature gate") != want || !strings.Contains(text, "other lines are shown") {
			t.Errorf("-v %d: want feature gates: %t\n%s", verbosity, want, text)
		}
	}
}

// TestClientGoLinesAreAtMostDebug also expects no line where debug is not shown: klog
// logs errors without checking the level.
func TestClientGoLinesAreAtMostDebug(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelInfo:  "",
		slog.LevelDebug: `level=DEBUG msg="no answer" a=b err=refused c=d`,
	} {
		var out bytes.Buffer
		ctx := withDebugLog(t.Context(), slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})))
		klog.FromContext(ctx).WithValues("a", "b").Error(errors.New("refused"), "no answer", "c", "d")
		if got := out.String(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("at level %s: %q", level, got)
		}
	}
}
