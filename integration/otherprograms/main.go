// Command rules sets the rules of network programs of Kubernetes nodes, in the network
// namespace in which it is started: it calls the packages with which those programs set
// them. Arguments:
//
//	rules flannel iptables|nftables POD-RANGES CLUSTER-RANGES
//	rules tailscale iptables|nftables
//	rules vpc-cni INTERFACE VPC-RANGES
//
// POD-RANGES and CLUSTER-RANGES are two, of IPv4 and of IPv6, VPC-RANGES any number, with
// commas between them. The package is a module of its own so that kube-vmap does not depend
// on these programs. The versions are in go.mod.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/aws/amazon-vpc-cni-k8s/pkg/networkutils"
	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/trafficmngr"
	"github.com/flannel-io/flannel/pkg/trafficmngr/iptables"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"
	"tailscale.com/util/linuxfw"
)

// programs are the functions that set the rules of a program, by its name.
var programs = map[string]func(args []string) error{
	"flannel":   flannel,
	"tailscale": tailscale,
	"vpc-cni":   vpcCNI,
}

func main() {
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: rules flannel|tailscale|vpc-cni ARGUMENTS")
		os.Exit(2)
	}
	if err := programs[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// needs returns an error if there are not that many arguments.
func needs(args []string, n int) error {
	if len(args) != n {
		return fmt.Errorf("%d arguments, want %d", len(args), n)
	}
	return nil
}

// resync is how often flannel restores its rules with iptables, in seconds. The program
// ends before that.
const resync = 60

// flannel sets the rules as flanneld does with --ip-masq.
func flannel(args []string) error {
	if err := needs(args, 3); err != nil {
		return err
	}
	managers := map[string]trafficmngr.TrafficManager{
		"iptables": &iptables.IPTablesManager{},
		"nftables": &nftables.NFTablesManager{},
	}
	m, ok := managers[args[0]]
	if !ok {
		return fmt.Errorf("flannel has no mode %q", args[0])
	}
	pods4, pods6, err := parseRanges(args[1])
	if err != nil {
		return err
	}
	cluster4, cluster6, err := parseRanges(args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := m.Init(ctx); err != nil {
		return err
	}
	m.SetupAndEnsureForwardRules(ctx, cluster4, cluster6, resync)
	own := &lease.Lease{EnableIPv4: true, EnableIPv6: true, Subnet: pods4, IPv6Subnet: pods6}
	// As if it were restarted with the same configuration.
	return m.SetupAndEnsureMasqRules(ctx, cluster4, pods4, cluster4, cluster6, pods6, cluster6, own, resync, false)
}

// parseRanges parses a range of each family.
func parseRanges(text string) (r4 ip.IP4Net, r6 ip.IP6Net, err error) {
	text4, text6, _ := strings.Cut(text, ",")
	_, net4, err := net.ParseCIDR(text4)
	if err != nil {
		return r4, r6, err
	}
	_, net6, err := net.ParseCIDR(text6)
	if err != nil {
		return r4, r6, err
	}
	return ip.FromIPNet(net4), ip.FromIP6Net(net6), nil
}

// tunnel is the name of Tailscale's interface. Rules that match it may be set before the
// interface exists.
const tunnel = "tailscale0"

// tailscale sets the rules as tailscaled does on a subnet router, with all its options.
func tailscale(args []string) error {
	if err := needs(args, 1); err != nil {
		return err
	}
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	r, err := linuxfw.New(log, args[0])
	if err != nil {
		return err
	}
	// As tailscaled does when it starts, in case that it was killed.
	linuxfw.IPTablesCleanUp(log)
	linuxfw.NfTablesCleanUp(log)
	if err := r.AddChains(); err != nil {
		return err
	}
	return errors.Join(r.AddHooks(), r.AddBase(tunnel), r.AddSNATRule(), r.AddStatefulRule(tunnel), r.AddConnmarkSaveRule())
}

// vpcCNI sets up the host as the node agent does on its start, in IPv4 mode: rules with
// iptables and nf_tables, and routing rules.
func vpcCNI(args []string) error {
	if err := needs(args, 2); err != nil {
		return err
	}
	primary, err := net.InterfaceByName(args[0])
	if err != nil {
		return err
	}
	address, err := firstIPv4(primary)
	if err != nil {
		return err
	}
	host, err := networkutils.New()
	if err != nil {
		return err
	}
	return host.SetupHostNetwork(strings.Split(args[1], ","), primary.HardwareAddr.String(), &address, false, false)
}

func firstIPv4(i *net.Interface) (net.IP, error) {
	addresses, err := i.Addrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if r, ok := a.(*net.IPNet); ok && r.IP.To4() != nil {
			return r.IP.To4(), nil
		}
	}
	return nil, fmt.Errorf("%s has no IPv4 address", i.Name)
}
