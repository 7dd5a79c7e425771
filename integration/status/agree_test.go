package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/statustest"
	"kube-vmap/integration/daemon"
)

// TestKernelTablesAgreeWithDaemon compares what both have: while the daemon runs and after it
// was killed, with and without protected tables.
func TestKernelTablesAgreeWithDaemon(t *testing.T) {
	for _, flags := range [][]string{nil, {"--protect-tables=false", "--count-connections=false"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			f := daemon.NewFolder(t, l)
			f.Put("features", features(l)...)
			d := daemon.Start(t, l.Node, f, flags...)
			// After changes, slots are not in order.
			d.After(func() {
				less := features(l)
				for i := range less {
					less[i].Endpoints = less[i].Endpoints[min(1, len(less[i].Endpoints)):]
				}
				f.Put("features", less...)
			})
			d.After(func() { f.Put("features", features(l)...) })

			fromDaemon := document(t, l.Node.Host)
			if fromDaemon.Source != nodestatus.FromDaemon || len(fromDaemon.Services) != len(features(l)) || fromDaemon.Counted != (flags == nil) {
				t.Fatalf("the daemon has %d Services, counted: %v", len(fromDaemon.Services), fromDaemon.Counted)
			}
			agree(t, fromDaemon, document(t, l.Node.Host, "--kernel"))
			forms(t, l.Node.Host, "")
			d.Kill()
			agree(t, fromDaemon, document(t, l.Node.Host))
			forms(t, l.Node.Host, "no kube-vmap answers on @kube-vmap in this network namespace; read from the kernel's tables, which have no EndpointSlices")
		})
	}
}

// agree compares the daemon's document with the kernel's.
func agree(t *testing.T, daemon, kernel *nodestatus.Document) {
	t.Helper()
	if kernel.Source != nodestatus.FromKernel || kernel.Counted != daemon.Counted {
		t.Errorf("it is from the %s, counted: %v", kernel.Source, kernel.Counted)
	}
	if diff := cmp.Diff(statustest.AsKernel(daemon), statustest.AsKernel(kernel)); diff != "" {
		t.Errorf("-daemon +kernel\n%s", diff)
	}
}

func TestGetAfterCleanupReportsNoTables(t *testing.T) {
	l := newLab(t)
	out := run(t, l.Node.Host, 0, "get", "services")
	if out.code != 1 || !strings.Contains(out.stderr, "no kube-vmap answers on @kube-vmap in this network namespace: does kube-vmap run?") ||
		!strings.Contains(out.stderr, "this network namespace has no table of kube-vmap") || strings.Count(out.stderr, "\n") != 1 {
		t.Errorf("got %+v", out)
	}
}
