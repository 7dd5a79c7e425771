// Package bundle collects what is needed to understand a node from afar into one
// archive: what is configured, what is programmed, what the kernel holds and can do,
// and what went wrong last.
//
//	part --name, function--> file in kube-vmap-bundle/ of a .tar.gz
//
// A part that cannot be had is a file that says why. Nothing of it is secret: no
// credentials, no environment, no object but what Services and EndpointSlices say.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// folder is where all files of an archive are.
const folder = "kube-vmap-bundle/"

// Part is one file of an archive.
type Part struct {
	Name  string
	Write func(ctx context.Context, w io.Writer) error
}

// Write writes an archive as of a time. The errors of parts are in the archive, and
// returned as their names; the error is that of writing.
func Write(ctx context.Context, w io.Writer, parts []Part, at time.Time) (missing []string, err error) {
	packed := gzip.NewWriter(w)
	files := tar.NewWriter(packed)
	for _, p := range parts {
		name, content := p.Name, collect(ctx, p)
		if content.err != nil {
			missing = append(missing, p.Name)
			name += ".error"
			fmt.Fprintf(&content.text, "%v\n", content.err)
		}
		if err := add(files, name, content.text.Bytes(), at); err != nil {
			return missing, fmt.Errorf("write %s: %w", name, err)
		}
	}
	return missing, errors.Join(files.Close(), packed.Close())
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
