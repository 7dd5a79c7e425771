package cluster

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

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
