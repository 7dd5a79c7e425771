package preflight

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kube-vmap/cmd/components"
	vmapnode "kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync/cluster"
)

// fine returns an item for a check that found nothing.
func fine(name string, evidence ...string) Item {
	return Item{Name: name, Verdict: components.Fine, Evidence: evidence}
}

// needs returns an item for something that has to be done.
func needs(name, detail string, evidence ...string) Item {
	return Item{Name: name, Verdict: components.Needs, Detail: detail, Evidence: evidence}
}

// unknown returns an item for something that could not be checked.
func unknown(name string, err error) Item {
	detail := err.Error()
	if errors.Is(err, fs.ErrPermission) {
		detail = "not permitted; run it as root, or with CAP_NET_ADMIN"
	}
	return Item{Name: name, Verdict: Unknown, Detail: detail}
}

// kernel checks the release and the features of the kernel. The kernel validates a sample of
// everything that a rule set can have, without committing it; it may load modules for that.
func (n *node) kernel() []Item {
	release, old := vmapnode.TooOld()
	items := []Item{fine("kernel", release)}
	if old {
		items[0] = needs("kernel", "needs Linux "+vmapnode.Oldest+" or later", release)
	}
	err := vmapnode.WithKernel(func(k *kernel.Kernel) error {
		labels, err := k.SupportsLabels()
		if err != nil {
			return err
		}
		n.noLabels = !labels
		owner, err := k.SupportsOwner()
		if err != nil {
			return err
		}
		items = append(items,
			optional("connection labels", labels, "CONFIG_NF_CONNTRACK_LABELS is not set: masquerade depends on the packet mark"),
			optional("table owner", owner, "before Linux 6.9 other programs can change the tables"))
		return k.Probe(nft.Config{
			MasqueradeMark: nft.DefaultMasqueradeMark, NoLabels: n.noLabels, DropInvalid: true, CountConnections: true,
		})
	})
	if errors.Is(err, fs.ErrPermission) {
		return append(items, unknown("nftables", err))
	}
	if err != nil {
		return append(items, needs("nftables", err.Error()))
	}
	return append(items, fine("nftables", "every expression that the rule set uses"))
}

// optional returns an item for a feature that kube-vmap can do without.
func optional(name string, supported bool, otherwise string) Item {
	if supported {
		return fine(name, "supported")
	}
	return Item{Name: name, Verdict: components.Fine, Detail: otherwise, Evidence: []string{"not supported"}}
}

// minMemory is the request of the DaemonSet (deploy/base/daemonset.yaml), in KiB.
const minMemory = 140 << 10

func (n *node) memory() Item {
	text, err := os.ReadFile(filepath.Join(n.proc, "meminfo"))
	if err != nil {
		return unknown("memory", err)
	}
	available, err := memAvailable(text)
	if err != nil {
		return unknown("memory", err)
	}
	evidence := fmt.Sprintf("%d MiB available", available>>10)
	if available < minMemory {
		i := needs("memory", fmt.Sprintf("needs %d MiB for 10,000 Services", minMemory>>10), evidence)
		i.See = "deploy/README.md#sizes"
		return i
	}
	return fine("memory", evidence)
}

// memAvailable returns the line MemAvailable of /proc/meminfo, in KiB.
func memAvailable(meminfo []byte) (uint64, error) {
	lines := bufio.NewScanner(bytes.NewReader(meminfo))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			return strconv.ParseUint(fields[1], 10, 64)
		}
	}
	return 0, errors.New("no line MemAvailable in meminfo")
}

// errNoSysctl means that the kernel, or the network namespace, does not have a sysctl.
var errNoSysctl = errors.New("does not exist")

// sysctl returns the value of a sysctl that is a number.
func (n *node) sysctl(name string) (int, error) {
	text, err := os.ReadFile(filepath.Join(n.proc, "sys", strings.ReplaceAll(name, ".", "/")))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, errNoSysctl
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// conntrack checks how full the table of connections is. kube-vmap raises a limit that is
// too small for the number of CPUs.
func (n *node) conntrack() Item {
	limit, err := n.sysctl("net.netfilter.nf_conntrack_max")
	count, countErr := n.sysctl("net.netfilter.nf_conntrack_count")
	switch err = errors.Join(err, countErr); {
	case errors.Is(err, errNoSysctl):
		return fine("conntrack", "not loaded yet")
	case err != nil:
		return unknown("conntrack", err)
	}
	evidence := fmt.Sprintf("%d of %d connections", count, limit)
	if limit > 0 && count > limit/10*9 {
		return needs("conntrack", "the table is nearly full: raise net.netfilter.nf_conntrack_max", evidence)
	}
	return fine("conntrack", evidence)
}

// sysctls checks that the node forwards packets, and that a bridge of pods shows them to
// nftables.
func (n *node) sysctls() []Item {
	items := []Item{
		n.forwarding("net.ipv4.ip_forward", needs),
		n.forwarding("net.ipv6.conf.all.forwarding", func(name, _ string, evidence ...string) Item {
			return Item{Name: name, Verdict: components.Fine, Detail: "set it to 1 if pods have IPv6 addresses", Evidence: evidence}
		}),
	}
	if !components.Has(components.Find(n.Node), components.Bridge) {
		return items
	}
	for _, name := range []string{"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"} {
		const why = "replies between pods of a bridge bypass the proxy"
		value, err := n.sysctl(name)
		item := fine(name, strconv.Itoa(value))
		switch {
		case errors.Is(err, errNoSysctl):
			item = needs(name, "load the module br_netfilter: "+why, "no module br_netfilter")
		case err != nil:
			item = unknown(name, err)
		case value == 0:
			item = needs(name, "set it to 1: "+why, "0")
		}
		items = append(items, item)
	}
	return items
}

// forwarding checks one family; off is called if it is not forwarded. Without IPv6 there is
// nothing to forward.
func (n *node) forwarding(name string, off func(name, detail string, evidence ...string) Item) Item {
	value, err := n.sysctl(name)
	switch {
	case errors.Is(err, errNoSysctl):
		return fine(name, "no such family")
	case err != nil:
		return unknown(name, err)
	case value == 0:
		return off(name, "set it to 1: other nodes do not reach pods", "0")
	}
	return fine(name, strconv.Itoa(value))
}

// apiTimeout is how long the API server may take to answer.
const apiTimeout = 5 * time.Second

// apiServer asks the API server for its version, at the address in the kubeconfig.
func apiServer(ctx context.Context, kubeconfig string) Item {
	const name = "API server"
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	version, err := cluster.ServerVersion(ctx, cluster.ClientConfig{Kubeconfig: kubeconfig})
	if err != nil {
		i := needs(name, "must be reachable from the node, without a Service: "+err.Error())
		i.See = "deploy/README.md#settings"
		return i
	}
	return fine(name, version)
}
