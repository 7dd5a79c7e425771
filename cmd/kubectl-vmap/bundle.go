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
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/bundle/archive"
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
		var failures nodes.Failures
		at := time.Now()
		err = archive.Create(output, "", at, cmd.OutOrStdout(), func(w io.Writer) (err error) {
			b := bundle{r.Patient(partTimeout), archive.NewWriter(w, at)}
			failures, err = b.write(cmd.Context(), list)
			return err
		})
		return cmp.Or(err, failures.Err(cmd.ErrOrStderr()))
	}
	return cmd
}

// partTimeout is the limit of cmd/inspect/bundle for one part; meanwhile a node writes nothing.
const partTimeout = time.Minute

type bundle struct {
	*cluster.Cluster
	*archive.Writer
}

// write writes the archive. It returns the nodes that did not answer.
func (b *bundle) write(ctx context.Context, list nodes.List) (nodes.Failures, error) {
	var failures nodes.Failures
	var failed strings.Builder
	writeErr := b.Add("version.txt", []byte("kubectl-vmap "+version+"\n"))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	nodes.Each(ctx, list, func(ctx context.Context, n nodes.Node) ([]byte, error) {
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
		writeErr = b.Add("failed.txt", []byte(failed.String()))
	}
	return failures, errors.Join(writeErr, b.Close(), context.Cause(ctx))
}

func (b *bundle) copy(node string, from io.Reader) (writeErr, readErr error) {
	packed, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("read the node's archive: %w", err)
	}
	copied := map[string]bool{}
	limited := &io.LimitedReader{R: packed, N: maxUnpacked}
	for files := tar.NewReader(limited); ; {
		var text []byte
		header, err := files.Next()
		if err == nil {
			text, err = io.ReadAll(files)
		}
		switch {
		case limited.N == 0:
			return nil, fmt.Errorf("read the node's archive: it unpacks to more than %d MiB", maxUnpacked>>20)
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read the node's archive: %w", err)
		}
		name, inside := strings.CutPrefix(header.Name, archive.Folder)
		if !inside || !fileName.MatchString(name) || copied[name] {
			continue // no other program's files
		}
		copied[name] = true
		if err := b.Add(node+"/"+name, text); err != nil {
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
