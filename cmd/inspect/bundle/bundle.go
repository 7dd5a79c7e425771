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
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kube-vmap/cmd/inspect/bundle/archive"
	"kube-vmap/cmd/inspect/diff"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/kernel"
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
			parts := parts(client.Client{Socket: socket}, cmd.Root().Version)
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

// Without these parts, a bundle is useless.
const (
	kernelPart = "rules-kernel.nft"
	statusPart = "status.json"
)

// parts returns the files of the archive. Their names have no underscore, or kubectl vmap bundle
// would leave them out. A process that does not respond is asked only once, since each request
// would wait for its timeout.
func parts(of client.Client, version string) []part {
	var silent error
	fromProxy := func(name, path string) part {
		return part{Name: name, Write: func(ctx context.Context, w io.Writer) error {
			if silent != nil {
				return silent
			}
			err := of.Copy(ctx, path, w)
			var timeout net.Error
			if errors.Is(err, client.ErrUnresponsive) || errors.As(err, &timeout) && timeout.Timeout() {
				silent = fmt.Errorf("not requested: %w", err)
			}
			return err
		}}
	}
	return []part{
		{Name: "versions.txt", Write: func(_ context.Context, w io.Writer) error { return writeVersions(w, version) }},
		fromProxy("config.yaml", client.PathConfig),
		fromProxy("recent.log", client.PathRecent),
		fromProxy("info.log", client.PathInfo),
		fromProxy("metrics.txt", client.PathMetrics),
		fromProxy(statusPart, client.Path), // from here on, the loop is waited for
		{Name: "problems.txt", Write: func(ctx context.Context, w io.Writer) error {
			if silent != nil {
				return silent
			}
			d, err := of.Get(ctx, nodestatus.Query{})
			if err != nil {
				return err
			}
			l := findings.ListOf(d)
			return l.Write(w)
		}},
		fromProxy("rules-wanted.nft", client.PathRules),
		fromProxy("drift.txt", client.PathDrift),
		{Name: kernelPart, Write: func(ctx context.Context, w io.Writer) error {
			if silent != nil {
				of.Socket = "" // read the kernel directly
			}
			return diff.RenderKernel(ctx, of, w)
		}},
		{Name: "rules-others.nft", Write: func(_ context.Context, w io.Writer) error { return dump.WriteOthers(w) }},
		{Name: "sysctl.txt", Write: writeSysctls},
	}
}

func writeVersions(w io.Writer, version string) error {
	release, err := node.Release()
	_, _ = fmt.Fprintf(w, "kube-vmap %s (%s, %s)\nLinux %s\n", version, runtime.Version(), runtime.GOARCH, release)
	return errors.Join(err, node.WithKernel(func(k *kernel.Kernel) error {
		able, err := k.SupportsOwner()
		if err == nil {
			_, err = fmt.Fprintf(w, "tables can be protected: %t\n", able)
		}
		return err
	}))
}

// sysctls are the settings that decide whether translated packets are forwarded.
var sysctls = []string{
	"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv4/conf/all/rp_filter",
	"net/ipv4/conf/default/rp_filter",
	"net/ipv4/conf/all/route_localnet", "net/ipv4/fib_multipath_hash_policy", "net/ipv4/tcp_fwmark_accept",
	"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables",
	"net/netfilter/nf_conntrack_count", "net/netfilter/nf_conntrack_max", "net/netfilter/nf_conntrack_buckets",
	"net/netfilter/nf_conntrack_tcp_be_liberal", "net/netfilter/nf_conntrack_tcp_timeout_established",
	"net/netfilter/nf_conntrack_tcp_timeout_close_wait", "net/netfilter/nf_conntrack_udp_timeout",
	"net/netfilter/nf_conntrack_udp_timeout_stream",
}

func writeSysctls(_ context.Context, w io.Writer) error {
	for _, name := range sysctls {
		value := "(does not exist)"
		if text, err := os.ReadFile("/proc/sys/" + name); err == nil {
			value = strings.TrimSpace(string(text))
		}
		if _, err := fmt.Fprintf(w, "%s = %s\n", strings.ReplaceAll(name, "/", "."), value); err != nil {
			return err
		}
	}
	return nil
}
