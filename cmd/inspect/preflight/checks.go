package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	vmapnode "kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/cmd/programs"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/sync"
	"kube-vmap/sync/source/addresses"
	"kube-vmap/sync/source/cluster"
)

// check makes all checks, in the order of the report.
func (n *node) check(ctx context.Context, kubeconfig string) {
	n.kernel()
	n.bridge()
	n.paths(ctx)
	if kubeconfig != "" {
		n.apiServer(ctx, kubeconfig)
	}
	n.components()
	n.add(n.fastPath())
}

// kernel checks the release and the features of the kernel. The kernel validates a sample of
// everything that a rule set can have, without committing it; it may load modules for that.
func (n *node) kernel() {
	release, old := vmapnode.TooOld()
	i := item("kernel", "", release)
	if old {
		i = i.needs("needs Linux " + vmapnode.Oldest + " or later")
	}
	n.add(i, nil)
	i = item("nftables", "", "every expression that the rule set uses")
	err := vmapnode.WithKernel(func(k *kernel.Kernel) error {
		labels, err := k.SupportsLabels()
		if err != nil {
			return err
		}
		n.feature("connection labels", labels, fmt.Sprintf("CONFIG_NF_CONNTRACK_LABELS is not set: masquerade depends on "+
			"the packet mark, whose bit %#x (nftables.masqueradeBit) no other program may change", nft.DefaultMasqueradeMark))
		owner, err := k.SupportsOwner()
		if err != nil {
			return err
		}
		n.feature("table owner", owner, "before Linux 6.9 other programs can change the tables")
		return k.Probe(nft.Config{
			MasqueradeMark: nft.DefaultMasqueradeMark, NoLabels: !labels, DropInvalid: true, CountConnections: true,
			PassiveHealth: true,
		})
	})
	if err != nil {
		i.Evidence = nil
		if !errors.Is(err, fs.ErrPermission) {
			i, err = i.needs(err.Error()), nil
		}
	}
	n.add(i, err)
}

// feature adds whether the kernel has an optional feature, and what it means if not.
func (n *node) feature(name string, supported bool, otherwise string) {
	i := item(name, "", "supported")
	if !supported {
		i = item(name, otherwise, "not supported")
	}
	n.add(i, nil)
}

// bridge checks that a bridge of pods shows packets to nftables.
func (n *node) bridge() {
	if !programs.Has(programs.Find(n.Node), programs.Bridge) {
		return
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		const bypass = "replies between pods of a bridge bypass the proxy"
		name := "bridge/bridge-nf-call-" + family
		text, err := os.ReadFile(filepath.Join(n.proc, "sys/net", name))
		i := item("net."+strings.ReplaceAll(name, "/", "."), "", strings.TrimSpace(string(text)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			i, err = item(i.Name, "", "no module br_netfilter").needs("load the module br_netfilter: "+bypass), nil
		case err == nil && i.Evidence[0] == "0":
			i = i.needs("set it to 1: " + bypass)
		}
		n.add(i, err)
	}
}

// fastPath says whether --fast-path would have an effect with what is on the node. Whether
// the kernel has flowtables shows only when one is added.
func (n *node) fastPath() (Item, error) {
	i := item("fast path", "whether the kernel has flowtables shows when --fast-path starts", "nothing known against it")
	i.See = "docs/usage.md#fast-path"
	list, err := flowtable.List(0)
	if reason := cmp.Or(flowtable.Foreign(list), programs.Obstacle(n.Node)); reason != "" {
		i.Detail, i.Evidence = "--fast-path would stay off: "+reason, nil
	}
	return i, err
}

const apiTimeout = 5 * time.Second

// apiServer asks the API server for its version, at the address in the kubeconfig, and for the
// ServiceCIDRs. An address in one that is on no link is a ClusterIP, or as good as one.
func (n *node) apiServer(ctx context.Context, kubeconfig string) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	const need = "must be reachable from the node, without a Service: "
	var version string
	var at []netip.AddrPort
	client, err := cluster.ForRequests(kubeconfig)
	if err == nil {
		version, err = client.Version(ctx)
	}
	if err == nil {
		at, err = client.Server(ctx)
	}
	if err != nil {
		i := item("API server", "").needs(need + err.Error())
		i.See = "deploy/README.md#settings"
		n.add(i, nil)
		return
	}
	interfaces, unlisted := addresses.Read()
	hosts := sync.Networks(interfaces)
	cidrs, unread := client.ServiceCIDRs(ctx)
	i := item("API server", "", version)
	for _, a := range at {
		inside := func(p netip.Prefix) bool { return p.Contains(a.Addr()) }
		onLink := slices.ContainsFunc(hosts, func(h sync.HostRange) bool { return inside(h.Prefix) })
		if cluster.IsOwnService(a) || slices.ContainsFunc(cidrs, inside) && !onLink {
			i = i.needs(need + a.String() + " is a ClusterIP")
			i.See = "deploy/README.md#settings"
		} else {
			hosts = append(hosts, sync.HostRange{Prefix: netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), Of: "the API server"})
		}
	}
	n.add(i, nil)
	i = item("ServiceCIDRs", "", fmt.Sprint(cidrs))
	if text := sync.Overlaps(cidrs, hosts); text != "" {
		i = i.needs("give Services another range, or check that other nodes are on a link of this one: " + text)
		i.See = "docs/limits.md#behaviour"
	}
	n.add(i, cmp.Or(unread, unlisted))
}
