package preflight

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kube-vmap/cmd/components"
	vmapnode "kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/sync/cluster"
)

// kernel checks the release and the features of the kernel. The kernel validates a sample of
// everything that a rule set can have, without committing it; it may load modules for that.
func (n *node) kernel() []Item {
	release, old := vmapnode.TooOld()
	items := []Item{fine("kernel", release)}
	if old {
		items[0] = needs("kernel", "needs Linux "+vmapnode.Oldest+" or later", release)
	}
	optional := func(name string, supported bool, otherwise string) {
		item := fine(name, "supported")
		if !supported {
			item = noted(name, otherwise, "not supported")
		}
		items = append(items, item)
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
		optional("connection labels", labels, "CONFIG_NF_CONNTRACK_LABELS is not set: masquerade depends on the packet mark")
		optional("table owner", owner, "before Linux 6.9 other programs can change the tables")
		return k.Probe(nft.Config{
			MasqueradeMark: nft.DefaultMasqueradeMark, NoLabels: n.noLabels, DropInvalid: true, CountConnections: true,
			CountUnanswered: true,
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

// sysctls checks that the node forwards packets, and that a bridge of pods shows them to
// nftables.
func (n *node) sysctls() (items []Item) {
	const (
		forward = "set it to 1: other nodes do not reach pods"
		bypass  = "replies between pods of a bridge bypass the proxy"
	)
	all := []struct{ name, off, none string }{ // what to do if it is 0, and if it does not exist
		{"net.ipv4.ip_forward", forward, ""},
		{"net.ipv6.conf.all.forwarding", "", ""},
	}
	if components.Has(components.Find(n.Node), components.Bridge) {
		for _, name := range []string{"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"} {
			all = append(all, struct{ name, off, none string }{
				name, "set it to 1: " + bypass,
				"load the module br_netfilter: " + bypass,
			})
		}
	}
	for _, s := range all {
		text, err := os.ReadFile(filepath.Join(n.proc, "sys", strings.ReplaceAll(s.name, ".", "/")))
		value := strings.TrimSpace(string(text))
		item := fine(s.name, value)
		switch {
		case errors.Is(err, fs.ErrNotExist) && s.none == "":
			item = fine(s.name, "no such family")
		case errors.Is(err, fs.ErrNotExist):
			item = needs(s.name, s.none, "no module br_netfilter")
		case err != nil:
			item = unknown(s.name, err)
		case value == "0" && s.off == "":
			item = noted(s.name, "set it to 1 if pods have IPv6 addresses", value)
		case value == "0":
			item = needs(s.name, s.off, value)
		}
		items = append(items, item)
	}
	return items
}

// fastPath says whether --fast-path would have an effect beside what is on the node. Whether
// the kernel has flowtables shows only when one is added.
func (n *node) fastPath() Item {
	const name = "fast path"
	list, err := flowtable.List(0)
	if err != nil {
		return unknown(name, err)
	}
	item := fine(name, "nothing is known against --fast-path")
	reason := flowtable.Foreign(list)
	if reason == "" {
		reason = components.FastPathObstacle(n.Node)
	}
	if reason != "" {
		item = noted(name, "--fast-path would stay off: "+reason)
	}
	item.See = "docs/usage.md#fast-path"
	return item
}

// apiTimeout is how long the API server may take to answer.
const apiTimeout = 5 * time.Second

// apiServer asks the API server for its version, at the address in the kubeconfig.
func apiServer(ctx context.Context, kubeconfig string) Item {
	const name = "API server"
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	version, err := cluster.ServerVersion(ctx, kubeconfig)
	if err != nil {
		i := needs(name, "must be reachable from the node, without a Service: "+err.Error())
		i.See = "deploy/README.md#settings"
		return i
	}
	return fine(name, version)
}
