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
	"fmt"
	"os"
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
