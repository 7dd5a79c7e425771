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
	"kube-vmap/model"
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
	n.sysctls()
	var pods []netip.AddrPort
	health := []uint16{healthPort}
	if kubeconfig != "" {
		pods, health = n.apiServer(ctx, kubeconfig)
	}
	n.paths(ctx, pods, health)
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

// sysctls checks that the node forwards packets, and that a bridge of pods shows them to
// nftables.
func (n *node) sysctls() {
	const (
		forward = "set it to 1: other nodes do not reach pods"
		bypass  = "replies between pods of a bridge bypass the proxy"
	)
	n.sysctl("net.ipv4.ip_forward", forward, "")
	n.sysctl("net.ipv6.conf.all.forwarding", "", "")
	if programs.Has(programs.Find(n.Node), programs.Bridge) {
		for _, family := range []string{"iptables", "ip6tables"} {
			n.sysctl("net.bridge.bridge-nf-call-"+family, "set it to 1: "+bypass, "load the module br_netfilter: "+bypass)
		}
	}
}

// sysctl checks a setting: what to do if it is 0, and if it does not exist.
func (n *node) sysctl(name, off, none string) {
	value, err := readSysctl(n.proc, name)
	i := item(name, "", value)
	isOff := err == nil && i.Evidence[0] == "0"
	switch absent := errors.Is(err, fs.ErrNotExist); {
	case absent && none == "":
		i, err = item(name, "", "no such family"), nil
	case absent:
		i, err = item(name, "", "no module br_netfilter").needs(none), nil
	case isOff && off == "":
		i.Detail = "set it to 1 if pods have IPv6 addresses"
	case isOff:
		i = i.needs(off)
	}
	n.add(i, err)
}

// Forwarding returns whether the node forwards packets of a family: "on", "off" or "not known".
func Forwarding(proc string, f model.Family) string {
	all := [...]string{model.IPv4: "net.ipv4.ip_forward", model.IPv6: "net.ipv6.conf.all.forwarding"}
	switch value, err := readSysctl(proc, all[f]); {
	case err != nil:
		return "not known"
	case value == "0":
		return "off"
	}
	return "on"
}

// readSysctl returns the value of a sysctl.
func readSysctl(proc, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(proc, "sys", strings.ReplaceAll(name, ".", "/")))
	return strings.TrimSpace(string(text)), err
}

// fastPath says whether --fast-path would have an effect beside what is on the node. Whether
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
// ServiceCIDRs. An address in one that is on no link is a ClusterIP, or as good as one. It returns
// endpoints and health check ports.
func (n *node) apiServer(ctx context.Context, kubeconfig string) (pods []netip.AddrPort, health []uint16) {
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
		return nil, []uint16{healthPort}
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
	pods, health, err = client.Sample(ctx)
	if err != nil {
		n.add(item("endpoints", ""), err)
	}
	return pods, append(health, healthPort)
}
