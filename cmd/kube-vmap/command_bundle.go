package main

import (
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

	"kube-vmap/cmd/inspect/bundle"
	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// bundleFromPod is the command that works where kube-vmap runs in a pod. It has no -t: a
// terminal would change what is not text.
const bundleFromPod = "kubectl -n kube-system exec POD -- /kube-vmap bundle -o - > bundle.tar.gz"

func bundleCommand(stdout, stderr io.Writer) *cobra.Command {
	var socket, output string
	cmd := &cobra.Command{
		Use:   "bundle [--output FILE]",
		Short: "Collect what helps to find a fault into one archive",
		Long: `Collect into one .tar.gz what helps others to understand this node: versions,
the configuration in use, what the running kube-vmap programs and the kernel
holds, the difference, metrics, the last warnings and errors of the log, and the
settings of connection tracking. What cannot be had, because nothing runs for
instance, is left out and named.

Names and addresses of Services and endpoints are in it; credentials, the
environment and the objects of other kinds are not.

A pod of kube-vmap has no place for files, since its file system is read-only: there,
write to stdout (-o -) and have kubectl make the file.

The exit code is 1 if the archive cannot be written, or if nothing of kube-vmap
could be had.`,
		Example: "  kube-vmap bundle\n  " + bundleFromPod,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return collect(cmd.Context(), socket, output, stdout, stderr)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write, - for stdout (default kube-vmap-bundle-HOST-TIME.tar.gz)")
	cmd.Flags().StringVar(&socket, "status-socket", config.StatusSocket, "Unix `socket` on which the running kube-vmap answers")
	return cmd
}

// collect writes the archive and tells where it is.
func collect(ctx context.Context, socket, output string, stdout, stderr io.Writer) (err error) {
	at := time.Now()
	if output == "" {
		host, _ := os.Hostname() // without, the time tells archives apart
		output = fmt.Sprintf("kube-vmap-bundle-%s-%s.tar.gz", host, at.UTC().Format("20060102T150405Z"))
	}
	out := stdout
	if output != "-" {
		// Others on the node need not know what is in it.
		f, e := os.OpenFile(output, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		switch {
		case errors.Is(e, syscall.EROFS) || errors.Is(e, fs.ErrPermission):
			return fmt.Errorf("--output: %w; -o - writes to stdout, as from a pod: %s", e, bundleFromPod)
		case e != nil:
			return fmt.Errorf("--output: %w", e)
		}
		defer func() {
			if err = errors.Join(err, f.Close()); err != nil {
				err = errors.Join(err, os.Remove(output)) // half of it helps nobody
			}
		}()
		out = f
	}
	missing, err := bundle.Write(ctx, out, parts(socket), at)
	if err != nil {
		return err
	}
	if slices.Contains(missing, kernelPart) && slices.Contains(missing, statePart) {
		return errors.New("neither the kernel nor a running kube-vmap could be asked; run it as root")
	}
	if len(missing) > 0 {
		_, _ = fmt.Fprintf(stderr, "kube-vmap: not to be had, the files *.error say why: %s\n", strings.Join(missing, ", "))
	}
	if output != "-" {
		_, err = fmt.Fprintln(stdout, output)
	}
	return err
}

// Parts without which there is nothing to look at.
const (
	kernelPart = "rules-kernel.nft"
	statePart  = "status.json"
)

// parts are the files of the archive. A process that does not answer is not asked
// again, for each question waits.
func parts(socket string) []bundle.Part {
	var silent error
	asked := func(name, path string) bundle.Part {
		return bundle.Part{Name: name, Write: func(ctx context.Context, w io.Writer) error {
			if silent != nil {
				return silent
			}
			err := ask(ctx, socket, path, w)
			var waited net.Error
			if errors.Is(err, status.ErrSilent) || errors.As(err, &waited) && waited.Timeout() {
				silent = fmt.Errorf("not asked: %w", err)
			}
			return err
		}}
	}
	return []bundle.Part{
		{Name: "versions.txt", Write: writeVersions},
		asked("config.yaml", pathConfig),
		asked(statePart, status.Path),
		asked("recent.log", pathRecent),
		asked("metrics.txt", pathMetrics),
		asked("rules-wanted.nft", pathRules),
		asked("drift.txt", pathDrift),
		{Name: kernelPart, Write: func(ctx context.Context, w io.Writer) error {
			rules := nft.Config{MasqueradeMark: nft.DefaultMasqueradeMark}
			if silent != nil {
				return withKernel(func(k *kernel.Kernel) error { return readKernel(k, rules, w) })
			}
			return renderKernel(ctx, socket, rules, w)
		}},
		{Name: "sysctl.txt", Write: writeSysctls},
	}
}

// writeVersions tells what is at work.
func writeVersions(_ context.Context, w io.Writer) error {
	if _, err := fmt.Fprintf(w, "kube-vmap %s (%s, %s)\n", version, runtime.Version(), runtime.GOARCH); err != nil {
		return err
	}
	release, err := node.Release()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, "Linux", release); err != nil {
		return err
	}
	return withKernel(func(k *kernel.Kernel) error {
		able, err := k.SupportsOwner()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "tables can be protected: %t\n", able)
		return err
	})
}

// sysctls are the settings that decide whether translated packets find their way.
var sysctls = []string{
	"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv4/conf/all/rp_filter", "net/ipv4/conf/default/rp_filter",
	"net/ipv4/conf/all/route_localnet", "net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables",
	"net/netfilter/nf_conntrack_count", "net/netfilter/nf_conntrack_max", "net/netfilter/nf_conntrack_buckets",
	"net/netfilter/nf_conntrack_tcp_be_liberal", "net/netfilter/nf_conntrack_tcp_timeout_established",
	"net/netfilter/nf_conntrack_tcp_timeout_close_wait", "net/netfilter/nf_conntrack_udp_timeout",
	"net/netfilter/nf_conntrack_udp_timeout_stream",
}

// writeSysctls writes settings as sysctl -a would. One that is not there is named.
func writeSysctls(_ context.Context, w io.Writer) error {
	for _, name := range sysctls {
		value := "not there"
		if text, err := os.ReadFile("/proc/sys/" + name); err == nil {
			value = strings.TrimSpace(string(text))
		}
		if _, err := fmt.Fprintf(w, "%s = %s\n", strings.ReplaceAll(name, "/", "."), value); err != nil {
			return err
		}
	}
	return nil
}
