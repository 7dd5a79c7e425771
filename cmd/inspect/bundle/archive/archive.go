// Package archive writes the archives of bundles, of a node or of a cluster. In one of a cluster each
// node has a folder.
package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Folder is where all files of an archive are.
const Folder = "kube-vmap-bundle/"

// A Writer writes an archive.
type Writer struct {
	packed *gzip.Writer
	files  *tar.Writer
	at     time.Time // of the files
}

// NewWriter returns a writer of an archive whose files have a time.
func NewWriter(w io.Writer, at time.Time) *Writer {
	packed := gzip.NewWriter(w)
	return &Writer{packed, tar.NewWriter(packed), at}
}

// Add adds a file to the folder. It is written when Add returns: a reader may not wait for the next.
func (w *Writer) Add(name string, content []byte) error {
	err := w.files.WriteHeader(&tar.Header{
		Name: Folder + name, Mode: 0o644, Size: int64(len(content)), ModTime: w.at, Typeflag: tar.TypeReg,
	})
	if err == nil {
		_, err = w.files.Write(content)
	}
	if err = errors.Join(err, w.files.Flush(), w.packed.Flush()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Close ends the archive.
func (w *Writer) Close() error { return errors.Join(w.files.Close(), w.packed.Close()) }

// Create writes what write writes to a new file, whose name it prints, or to stdout for "-"; empty means
// a name with a label and the time. After an error there is no file: an incomplete archive is useless.
func Create(path, label string, at time.Time, stdout io.Writer, write func(io.Writer) error) error {
	switch path {
	case "-":
		return write(stdout)
	case "":
		path = "kube-vmap-bundle-" + label + at.UTC().Format("20060102T150405Z") + ".tar.gz"
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // not for other users
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	_, err = fmt.Fprintln(stdout, path)
	return err
}
