package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/aws/amazon-vpc-cni-k8s/pkg/networkutils"
)

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
