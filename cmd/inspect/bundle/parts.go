package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"

	"kube-vmap/cmd/inspect/diff"
	"kube-vmap/cmd/inspect/findings"
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/kernel"
)

// Without these parts, a bundle is useless.
const (
	kernelPart = "rules-kernel.nft"
	statusPart = "status.json"
)

// parts returns the files of the archive. Their names have no underscore, or kubectl vmap bundle
// would leave them out. A process that does not respond is asked only once, since each request
// would wait for its timeout.
func parts(socket, version string) []part {
	var silent error
	fromProxy := func(name, path string) part {
		return part{Name: name, Write: func(ctx context.Context, w io.Writer) error {
			if silent != nil {
				return silent
			}
			err := client.Copy(ctx, socket, path, w)
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
			d, err := client.Client{Socket: socket}.Get(ctx, nodestatus.Query{})
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
				socket = "" // read the kernel directly
			}
			return diff.RenderKernel(ctx, socket, w)
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
