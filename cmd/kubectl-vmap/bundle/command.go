// Package bundle is kubectl vmap bundle: the diagnostics of all nodes in one archive.
package bundle

import (
	"archive/tar"
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

	"kube-vmap/cmd/kubectl-vmap/nodes"
)

// NewCommand returns kubectl vmap bundle.
func NewCommand(f *nodes.Flags, version string) *cobra.Command {
	var selection nodes.Selection
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.Cluster(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			list, err := selection.Select(cmd.Context(), c)
			if err != nil {
				return err
			}
			now := time.Now()
			b := writer{cluster: c, version: version, at: now, stderr: cmd.ErrOrStderr()}
			if output == "-" {
				return b.write(cmd.Context(), list, cmd.OutOrStdout())
			}
			path := cmp.Or(output, "kube-vmap-bundle-"+now.UTC().Format("20060102-150405")+".tar.gz")
			return b.writeFile(cmd.Context(), list, path, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write, - for stdout (default kube-vmap-bundle-TIME.tar.gz)")
	selection.AddFlags(cmd.Flags(), "all by default")
	return cmd
}

// writer writes an archive.
type writer struct {
	cluster *nodes.Cluster
	version string // of this program
	at      time.Time
	stderr  io.Writer
}

// writeFile writes the archive to a new file, and prints its name.
func (b *writer) writeFile(ctx context.Context, list []nodes.Node, path string, stdout io.Writer) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	err = b.write(ctx, list, file)
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
func (b *writer) write(ctx context.Context, list []nodes.Node, w io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	packed := gzip.NewWriter(w)
	files := tar.NewWriter(packed)
	var failures nodes.Failures
	var failed strings.Builder
	writeErr := b.add(files, "version.txt", []byte("kubectl-vmap "+b.version+"\n"))
	nodes.Ask(ctx, b.cluster, list, func(ctx context.Context, n nodes.Node) (*nodes.Buffer, error) {
		var text nodes.Buffer
		err := b.cluster.Run(ctx, n, &text, "bundle", "-o", "-")
		return &text, err
	}, func(n nodes.Node, text *nodes.Buffer, err error) {
		if writeErr != nil {
			return
		}
		if text != nil && text.Len() > 0 { // also what came before an error
			copied, copyErr := b.copy(files, n.Name, text)
			writeErr = copied
			err = cmp.Or(err, copyErr)
		}
		if writeErr != nil {
			stop()
		}
		failures.Add(n, err)
		if err != nil {
			fmt.Fprintf(&failed, "%s: %v\n", n.Name, err)
		}
	})
	if writeErr == nil && failed.Len() > 0 {
		writeErr = b.add(files, "failed.txt", []byte(failed.String()))
	}
	if err := errors.Join(writeErr, files.Close(), packed.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return failures.Err(b.stderr)
}

// folder is where all files of an archive are, as in the archives of nodes.
const folder = "kube-vmap-bundle/"

// copy copies the files of a node's archive into the node's folder.
func (b *writer) copy(files *tar.Writer, node string, archive io.Reader) (writeErr, readErr error) {
	packed, err := gzip.NewReader(archive)
	if err != nil {
		return nil, fmt.Errorf("read the node's archive: %w", err)
	}
	copied := map[string]bool{}
	for from := tar.NewReader(&limited{packed, maxUnpacked}); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		var text []byte
		if err == nil {
			text, err = io.ReadAll(from)
		}
		if err != nil {
			return nil, fmt.Errorf("read the node's archive: %w", err)
		}
		name, inside := strings.CutPrefix(header.Name, folder)
		if !inside || !fileName.MatchString(name) || copied[name] {
			continue // no other program's files
		}
		copied[name] = true
		if err := b.add(files, node+"/"+name, text); err != nil {
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

// limited is a reader that fails if there is too much to read.
type limited struct {
	from io.Reader
	room int
}

// Read implements [io.Reader].
func (l *limited) Read(p []byte) (int, error) {
	if l.room <= 0 {
		return 0, fmt.Errorf("it unpacks to more than %d MiB", maxUnpacked>>20)
	}
	n, err := l.from.Read(p[:min(len(p), l.room)])
	l.room -= n
	return n, err
}

// add adds a file.
func (b *writer) add(files *tar.Writer, name string, content []byte) error {
	err := files.WriteHeader(&tar.Header{Name: folder + name, Mode: 0o644, Size: int64(len(content)), ModTime: b.at, Typeflag: tar.TypeReg})
	if err == nil {
		_, err = files.Write(content)
	}
	return err
}
