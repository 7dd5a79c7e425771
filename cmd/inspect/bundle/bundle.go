// Package bundle collects diagnostics of a node into one archive: the configuration,
// what is programmed, what the kernel holds and can do, and the last errors.
//
//	part{name, function} --> file in kube-vmap-bundle/ of a .tar.gz
//
// A part that cannot be collected becomes a file with the error. No part has
// credentials, the environment, or objects other than Services and EndpointSlices.
package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/bundle/archive"
	"kube-vmap/cmd/inspect/nodestatus/client"
)

// timeout limits one part, so an archive comes to an end.
const timeout = time.Minute

type part struct {
	Name  string
	Write func(ctx context.Context, w io.Writer) error
}

// writeParts writes an archive with the time of its files. It returns the names of parts that
// failed, whose errors are in the archive; err is about writing it.
func writeParts(ctx context.Context, w io.Writer, parts []part, at time.Time) (missing []string, err error) {
	files := archive.NewWriter(w, at)
	for _, p := range parts {
		var text bytes.Buffer
		name := p.Name
		ctx, cancel := context.WithTimeout(ctx, timeout)
		if err := p.Write(ctx, &text); err != nil {
			missing = append(missing, p.Name)
			name += ".error"
			fmt.Fprintf(&text, "%v\n", err)
		}
		cancel()
		if err := files.Add(name, text.Bytes()); err != nil {
			return missing, err
		}
	}
	return missing, files.Close()
}

// podExample is the command for a kube-vmap in a pod. It has no -t: a terminal would
// corrupt binary output.
const podExample = "kubectl -n kube-system exec POD -- /kube-vmap bundle -o - > bundle.tar.gz"

// NewCommand returns kube-vmap bundle.
func NewCommand() *cobra.Command {
	var socket, output string
	cmd := &cobra.Command{
		Use:   "bundle [--output FILE]",
		Short: "Collect diagnostics of this node into an archive",
		Long: `Collect diagnostics of this node into one .tar.gz: versions, the configuration in use,
what the running kube-vmap programs and what the kernel holds, the difference, the tables
of other programs, problems, metrics, the last lines of the log (warnings and errors apart),
links, addresses, policy rules, routes, hooks, ipsets, and settings of the network. Parts
that cannot be collected, for instance because kube-vmap does not run, are skipped and
named.

It contains names and addresses of Services and endpoints, and the rules of other programs,
but no credentials, no environment and no objects of other kinds.

In a pod of kube-vmap the file system is read-only: write to stdout (-o -) there, and let
kubectl create the file.

The exit code is 1 if the archive cannot be written, or if nothing of kube-vmap
could be collected.`,
		Example: "  kube-vmap bundle\n  " + podExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			parts := parts(socket, cmd.Root().Version)
			return run(cmd.Context(), output, parts, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"`file` to write, - for stdout (default kube-vmap-bundle-HOST-TIME.tar.gz)")
	client.AddSocketFlag(cmd.Flags(), &socket)
	return cmd
}

func run(ctx context.Context, output string, parts []part, stdout, stderr io.Writer) error {
	at := time.Now()
	host, _ := os.Hostname() // without it, the time distinguishes archives
	err := archive.Create(output, host+"-", at, stdout, func(w io.Writer) error {
		missing, err := writeParts(ctx, w, parts, at)
		switch {
		case err != nil:
			return err
		case slices.Contains(missing, kernelPart) && slices.Contains(missing, statusPart):
			return errors.New("cannot read the kernel or reach a running kube-vmap; run this as root")
		case len(missing) > 0:
			_, _ = fmt.Fprintf(stderr, "kube-vmap: skipped, see the files *.error: %s\n", strings.Join(missing, ", "))
		}
		return nil
	})
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; -o - writes to stdout, as from a pod: %s", err, podExample)
	}
	return err
}
