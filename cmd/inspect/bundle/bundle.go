// Package bundle collects diagnostics of a node into one archive: the configuration,
// what is programmed, what the kernel holds and can do, and the last errors.
//
//	Part{name, function} --> file in kube-vmap-bundle/ of a .tar.gz
//
// A part that cannot be collected becomes a file with the error. No part has
// credentials, the environment, or objects other than Services and EndpointSlices.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// folder is where all files of an archive are.
const folder = "kube-vmap-bundle/"

// Limits of one part, so that an archive of a large cluster comes to an end.
const (
	maxBytes = 256 << 20
	timeout  = time.Minute
)

// errTruncated is the error of a part that was too long.
var errTruncated = fmt.Errorf("truncated after %d MiB", maxBytes>>20)

// Part is one file of an archive.
type Part struct {
	Name  string
	Write func(ctx context.Context, w io.Writer) error
}

// Write writes an archive with the time of its files. It returns the names of parts that
// failed, whose errors are in the archive; err is about writing it.
func Write(ctx context.Context, w io.Writer, parts []Part, at time.Time) (missing []string, err error) {
	packed := gzip.NewWriter(w)
	files := tar.NewWriter(packed)
	for _, p := range parts {
		var text bytes.Buffer
		name := p.Name
		if err := p.collect(ctx, &text); err != nil {
			missing = append(missing, p.Name)
			name += ".error"
			fmt.Fprintf(&text, "%v\n", err)
		}
		if err := add(files, name, text.Bytes(), at); err != nil {
			return missing, fmt.Errorf("write %s: %w", name, err)
		}
	}
	return missing, errors.Join(files.Close(), packed.Close())
}

// collect writes a part within its limits.
func (p *Part) collect(ctx context.Context, text *bytes.Buffer) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.Write(ctx, limitedWriter{text})
}

// limitedWriter writes up to maxBytes.
type limitedWriter struct{ to *bytes.Buffer } // not embedded: it would be an io.ReaderFrom

// Write implements [io.Writer].
func (w limitedWriter) Write(p []byte) (int, error) {
	room := maxBytes - w.to.Len()
	if len(p) <= room {
		return w.to.Write(p)
	}
	n, err := w.to.Write(p[:room])
	return n, errors.Join(err, errTruncated)
}

// add adds a file.
func add(files *tar.Writer, name string, content []byte, at time.Time) error {
	err := files.WriteHeader(&tar.Header{
		Name: folder + name, Mode: 0o644, Size: int64(len(content)), ModTime: at, Typeflag: tar.TypeReg,
	})
	if err != nil {
		return err
	}
	_, err = files.Write(content)
	return err
}
