package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

// TestArchiveOfNodeIsLimited reads a short archive that unpacks to more than is allowed.
func TestArchiveOfNodeIsLimited(t *testing.T) {
	var archive bytes.Buffer
	packed, _ := gzip.NewWriterLevel(&archive, gzip.BestSpeed)
	zeros := make([]byte, 1<<20)
	for range 4 + maxUnpacked>>20 {
		var file bytes.Buffer
		w := tar.NewWriter(&file)
		err := w.WriteHeader(&tar.Header{Name: folder + "drift.txt", Mode: 0o644, Size: int64(len(zeros))})
		if err == nil {
			_, err = w.Write(zeros)
		}
		if err == nil {
			err = w.Flush()
		}
		if err == nil {
			_, err = packed.Write(file.Bytes())
		}
		must(t, err)
	}
	must(t, packed.Close())
	writeErr, readErr := (&bundle{files: tar.NewWriter(io.Discard)}).copy("node-1", &archive)
	if writeErr != nil || readErr == nil || !strings.Contains(readErr.Error(), "unpacks to more than 512 MiB") {
		t.Errorf("%v, %v", writeErr, readErr)
	}
}
