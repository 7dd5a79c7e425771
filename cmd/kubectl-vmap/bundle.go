package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/nodes"
	"kube-vmap/cmd/kubectl-vmap/cluster"
)

func bundleCommand(f *cluster.Flags) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "bundle [--output FILE] [--node NAME,...]",
		Short: "Collect diagnostics of nodes into one archive",
		Long: `Collect the diagnostics of all nodes, or of some, into one .tar.gz with a folder for each
node; kube-vmap bundle collects them there. It contains names and addresses of Services
and endpoints, but no credentials, no environment and no objects of other kinds.

Nodes that do not answer are named, in the archive too (failed.txt). The exit code is 1
if there are some, or if the archive cannot be written.`,
		Example: `  kubectl vmap bundle
  kubectl vmap bundle --node node-1 -o - | tar tz`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"`file` to write, - for stdout (default kube-vmap-bundle-TIME.tar.gz)")
	r := f.Nodes("all by default")
	r.AddFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := r.Find(cmd.Context())
		if err != nil {
			return err
		}
		b := bundle{Cluster: r.Patient(partTimeout), list: list, stderr: cmd.ErrOrStderr(), at: time.Now()}
		if output == "-" {
			return b.write(cmd.Context(), cmd.OutOrStdout())
		}
		path := cmp.Or(output, "kube-vmap-bundle-"+b.at.UTC().Format("20060102-150405")+".tar.gz")
		return b.writeFile(cmd.Context(), path, cmd.OutOrStdout())
	}
	return cmd
}

// partTimeout is the limit of cmd/inspect/bundle for one part; meanwhile a node writes nothing.
const partTimeout = time.Minute

// A bundle is an archive that is written.
type bundle struct {
	*cluster.Cluster

	list   nodes.List
	stderr io.Writer
	at     time.Time
	files  *tar.Writer
}

// writeFile writes the archive to a new file, and prints its name.
func (b *bundle) writeFile(ctx context.Context, path string, stdout io.Writer) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	err = b.write(ctx, file)
	if closeErr := file.Close(); closeErr != nil {
		return fmt.Errorf("write the archive: %w", closeErr)
	}
	if ctx.Err() != nil {
		return errors.Join(err, os.Remove(path))
	}
	_, _ = fmt.Fprintln(stdout, path)
	return err
}

// write writes the archive. Nodes that do not answer are an error at the end.
func (b *bundle) write(ctx context.Context, w io.Writer) error {
	packed := gzip.NewWriter(w)
	b.files = tar.NewWriter(packed)
	var failures nodes.Failures
	var failed strings.Builder
	writeErr := b.add("version.txt", []byte("kubectl-vmap "+version+"\n"))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	nodes.Each(ctx, b.list, func(ctx context.Context, n nodes.Node) ([]byte, error) {
		return b.Run(ctx, n, "bundle", "-o", "-")
	}, func(n nodes.Node, text []byte, err error) {
		if writeErr == nil { // also what came before an error
			var readErr error
			writeErr, readErr = b.copy(n.Name, bytes.NewReader(text))
			err = cmp.Or(err, readErr)
		}
		if writeErr != nil {
			stop()
		}
		if failures.Add(n, err); err != nil {
			fmt.Fprintf(&failed, "%s: %v\n", n.Name, err)
		}
	})
	if writeErr == nil && failed.Len() > 0 {
		writeErr = b.add("failed.txt", []byte(failed.String()))
	}
	if err := errors.Join(writeErr, b.files.Close(), packed.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return failures.Err(b.stderr)
}

// folder is where all files of an archive are, as in the archives of nodes.
const folder = "kube-vmap-bundle/"

// copy copies the files of a node's archive into the node's folder.
func (b *bundle) copy(node string, archive io.Reader) (writeErr, readErr error) {
	packed, err := gzip.NewReader(archive)
	if err != nil {
		return nil, fmt.Errorf("read the node's archive: %w", err)
	}
	copied := map[string]bool{}
	limited := &io.LimitedReader{R: packed, N: maxUnpacked}
	for from := tar.NewReader(limited); ; {
		var text []byte
		header, err := from.Next()
		if err == nil {
			text, err = io.ReadAll(from)
		}
		switch {
		case limited.N == 0:
			return nil, fmt.Errorf("read the node's archive: it unpacks to more than %d MiB", maxUnpacked>>20)
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read the node's archive: %w", err)
		}
		name, inside := strings.CutPrefix(header.Name, folder)
		if !inside || !fileName.MatchString(name) || copied[name] {
			continue // no other program's files
		}
		copied[name] = true
		if err := b.add(node+"/"+name, text); err != nil {
			return err, nil
		}
	}
}

// fileName matches the names of files in a node's archive. None leaves the folder into
// which a user unpacks it, on any platform.
var fileName = regexp.MustCompile(`^[a-z][a-z0-9-]*(\.[a-z0-9]+)+$`)

// maxUnpacked is the length of a node's archive, unpacked: a short one could unpack to
// anything.
const maxUnpacked = 512 << 20

// add adds a file.
func (b *bundle) add(name string, content []byte) error {
	err := b.files.WriteHeader(&tar.Header{
		Name: folder + name, Mode: 0o644, Size: int64(len(content)), ModTime: b.at, Typeflag: tar.TypeReg,
	})
	if err == nil {
		_, err = b.files.Write(content)
	}
	return err
}
