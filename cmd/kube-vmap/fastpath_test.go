package main

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/conntrack"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/sync/follow/fastpath"
	"kube-vmap/sync/follow/flows"
	"kube-vmap/sync/follow/listen/listentest"
)

// stuck is a kernel that deletes no connection on the fast path (before Linux 6.4).
type stuck struct{ flows.Kernel }

func (stuck) Delete([]conntrack.Entry) (int, error) { return 0, fmt.Errorf("delete: %w", unix.EBUSY) }

func TestFastPathIsDisabledIfConnectionsCannotBeDeleted(t *testing.T) {
	if _, err := flowtable.List(0); err != nil {
		t.Skip(err)
	}
	f := fastpath.New(fastpath.Config{
		Obstacle: func() string { return "another reason" },
		Log:      slog.New(slog.DiscardHandler),
	})
	go func() { _ = f.Run(t.Context()) }()
	listentest.Eventually(t, "there is a reason", func() bool { return f.State().Reason == "another reason" })
	for range 3 {
		if _, err := (trackedFlows{stuck{}, f}).Delete(nil); !errors.Is(err, unix.EBUSY) {
			t.Errorf("the error is %v", err)
		}
	}
	listentest.Eventually(t, "it is disabled", func() bool { return f.State().Reason != "another reason" })
}
