package client

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Copy writes what the process serves at a path to w.
func Copy(ctx context.Context, socket, path string, w io.Writer) (err error) {
	answer, err := Ask(ctx, socket, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Close()) }()
	out := &errWriter{Writer: w}
	if _, err := io.Copy(out, answer); out.err != nil {
		return fmt.Errorf("print the answer: %w", out.err)
	} else if err != nil {
		return fmt.Errorf("read the answer from %s: %w", socket, err)
	}
	return nil
}

// errWriter keeps its write error, to distinguish it from a read error.
type errWriter struct {
	io.Writer
	err error
}

// Write implements [io.Writer].
func (w *errWriter) Write(p []byte) (n int, err error) {
	n, err = w.Writer.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}
