package bundle_test

import (
	"context"
	"io"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/bundle"
)

func TestEndlessPartIsTruncated(t *testing.T) {
	endless := bundle.Part{Name: "endless", Write: func(_ context.Context, w io.Writer) error {
		chunk := make([]byte, 1<<20)
		for {
			if _, err := w.Write(chunk); err != nil {
				return err
			}
		}
	}}
	missing, err := bundle.Write(t.Context(), io.Discard, []bundle.Part{endless}, time.Unix(1, 0))
	if err != nil || len(missing) != 1 {
		t.Errorf("missing %q, error %v", missing, err)
	}
}
