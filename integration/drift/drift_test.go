package drift

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/eventually"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

// many is a number of Services with which a read takes longer than the time between two
// changes.
const many = 6000

// TestDriftIsRepairedDuringOwnChanges tests that our own changes, one after the other, do
// not hide those of other programs.
func TestDriftIsRepairedDuringOwnChanges(t *testing.T) {
	for _, f := range model.Families {
		t.Run(f.String(), func(t *testing.T) {
			r := newRig(t)
			defer r.start(many, false, nil)()
			defer r.keepChanging()()
			r.damage(f)
			r.awaitRepair()
		})
	}
}

// keepChanging changes Services until the function it returns is called.
func (r *rig) keepChanging() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for version := 1; ctx.Err() == nil; version++ {
			select {
			case r.bursts <- []sync.Event{slice(version%100, version)}:
			case <-ctx.Done():
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-done }
}

// TestChangesBeforeTakingOwnershipAreRepaired tests changes between our read of tables
// without an owner and our taking ownership of them, which nothing detects later.
func TestChangesBeforeTakingOwnershipAreRepaired(t *testing.T) {
	for name, protect := range map[string]bool{"protected": true, "unprotected": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if able, err := r.other.SupportsOwner(); err != nil {
				t.Fatal(err)
			} else if protect && !able {
				t.Skip("this kernel does not let tables belong to a socket (Linux 6.9)")
			}
			r.start(10, protect, nil)()
			defer r.start(10, protect, func() {
				for _, f := range model.Families {
					r.damage(f)
				}
			})()
			r.awaitRepair()
		})
	}
}

// TestConstantForeignChangesDoNotPreventStart tests a program that changes its own tables
// up to fifty times a second: the loop starts, does not read forever, and logs nothing.
func TestConstantForeignChangesDoNotPreventStart(t *testing.T) {
	r := newRig(t)
	r.start(many, false, nil)()
	ctx, cancel := context.WithCancel(t.Context())
	neighbour := r.host.Command(ctx, "sh", "-c",
		"nft add table inet elsewhere; while sleep 0.02; do nft 'add chain inet elsewhere c; delete chain inet elsewhere c'; done")
	if err := neighbour.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = neighbour.Wait() }()
	defer r.start(many, false, nil)()
	// Changes go on, too.
	for version := range 20 {
		r.bursts <- []sync.Event{slice(0, version)}
		<-time.After(100 * time.Millisecond)
	}
	id := nft.SetID{Family: model.IPv4, Kind: nft.SetEndpoints}
	want := address(model.IPv4, 100, 1)
	eventually.Succeeds(t, "the last of 20 changes is installed", func() error {
		elements, err := r.other.Elements(id)
		if err == nil && !slices.ContainsFunc(elements, func(e nft.Element) bool {
			return e.Key.Addr == address(model.IPv4, 96, 0) && e.Value.Endpoint.Addr() == want
		}) {
			err = fmt.Errorf("none of %d elements has %s", len(elements), want)
		}
		return err
	})
	if log := r.log.String(); strings.Contains(log, "repaired") || strings.Contains(log, "level=ERROR") {
		t.Errorf("the log:\n%s", log)
	}
}
