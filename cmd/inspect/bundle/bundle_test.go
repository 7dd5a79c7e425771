package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/bundle"
)

// unpack reads the files of an archive.
func unpack(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	packed, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	files, out := tar.NewReader(packed), map[string]string{}
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(text)
	}
}

func TestFailedPartHasItsErrorAndOthersAreComplete(t *testing.T) {
	part := func(name, text string, err error) bundle.Part {
		return bundle.Part{Name: name, Write: func(_ context.Context, w io.Writer) error {
			_, _ = io.WriteString(w, text)
			return err
		}}
	}
	var archive bytes.Buffer
	missing, err := bundle.Write(t.Context(), &archive, []bundle.Part{
		part("version", "1\n", nil), part("metrics", "half\n", errors.New("no answer")), part("rules", "3\n", nil),
	}, time.Unix(1, 0))
	if err != nil || len(missing) != 1 || missing[0] != "metrics" {
		t.Errorf("missing %q, error %v", missing, err)
	}
	want := map[string]string{
		"kube-vmap-bundle/version": "1\n", "kube-vmap-bundle/metrics.error": "half\nno answer\n", "kube-vmap-bundle/rules": "3\n",
	}
	if got := unpack(t, &archive); !maps.Equal(got, want) {
		t.Errorf("the archive has %q, want %q", got, want)
	}
}

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
