package build_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/build"
	"kube-vmap/sync"
)

func TestHealthNeedsNoSnapshot(t *testing.T) {
	health := &nodestatus.Health{Sync: nodestatus.Sync{Last: then}}
	source := build.New(build.Config{
		NodeName: "worker-1", Version: "v1",
		Snapshot: func(context.Context) (sync.Snapshot, error) { return sync.Snapshot{}, errors.New("the loop waits") },
		Health:   func() (*nodestatus.Health, error) { return health, errors.New("read the tables: EPERM") },
	})
	d, err := source(t.Context(), nodestatus.Query{Health: true})
	if err != nil {
		t.Fatal(err)
	}
	if d.Schema != nodestatus.Schema || d.Health != health || !d.Ready || d.Node != "worker-1" || d.Version != "v1" || d.Source != nodestatus.FromDaemon {
		t.Errorf("the document is %+v", d)
	}
	want := nodestatus.Problem{Object: "Node worker-1", Reason: nodestatus.ReasonUnread, Text: "read the tables: EPERM"}
	if len(d.Problems) != 1 || !reflect.DeepEqual(d.Problems[0], want) {
		t.Errorf("the problems are %+v", d.Problems)
	}
	if _, err := source(t.Context(), nodestatus.Query{}); err == nil {
		t.Error("there is a document of Services without a snapshot")
	}
}
