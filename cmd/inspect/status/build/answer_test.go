package build_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/inspect/status/build"
	"kube-vmap/sync"
)

func TestHealthNeedsNoSnapshot(t *testing.T) {
	health := &status.Health{Sync: status.Sync{Last: then}}
	source := build.New(build.Config{
		NodeName: "worker-1", Version: "v1",
		Snapshot: func(context.Context) (sync.Snapshot, error) { return sync.Snapshot{}, errors.New("the loop waits") },
		Health:   func() (*status.Health, error) { return health, errors.New("read the tables: EPERM") },
	})
	d, err := source(t.Context(), status.Query{Health: true})
	if err != nil {
		t.Fatal(err)
	}
	if d.Schema != status.Schema || d.Health != health || !d.Ready || d.Node != "worker-1" || d.Version != "v1" || d.Source != status.FromDaemon {
		t.Errorf("the document is %+v", d)
	}
	want := status.Problem{Object: "Node worker-1", Reason: status.ReasonUnread, Text: "read the tables: EPERM"}
	if len(d.Problems) != 1 || !reflect.DeepEqual(d.Problems[0], want) {
		t.Errorf("the problems are %+v", d.Problems)
	}
	if _, err := source(t.Context(), status.Query{}); err == nil {
		t.Error("there is a document of Services without a snapshot")
	}
}
