package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/nft"
)

// flowtableRules are a flowtable beside the rule set, for translated connections after 20
// packets, with the family and the devices to fill in. Rules that use `ct packets` make the
// kernel count packets.
const flowtableRules = `
table %[1]s trial {
	flowtable fast { hook ingress priority filter; devices = { %[2]s }; counter; }
	chain forward {
		type filter hook forward priority filter + 10;
		ct state established ct status dnat ct packets > 20 flow add @fast
	}
}
`

// missingFlowtable returns an error if the kernel has no flowtables.
func missingFlowtable() error {
	host, done, err := lab.Alone()
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	return nftables(host, fmt.Sprintf(flowtableRules, "ip", "lo"))
}

// useFlowtable adds the flowtable for all devices of the node, or removes it.
func (x *flowLab) useFlowtable(on bool) error {
	family := nft.FamilyName(x.family)
	rules := fmt.Sprintf("table %s trial\ndelete table %[1]s trial\n", family)
	if on {
		devices := []string{"eth0", x.client.Link, x.server[0].Link}
		if x.bridge {
			devices = append(devices, lab.BridgeName)
		}
		rules += fmt.Sprintf(flowtableRules, family, strings.Join(devices, ", "))
	}
	if err := nftables(x.lab.Node.Host, rules); err != nil || on {
		return err
	}
	return x.lab.Node.Host.Do(func() error { return writeFile("/proc/sys/net/netfilter/nf_conntrack_acct", "0") })
}

// dropAt drops all packets that enter a device, before anything else looks at them.
func dropAt(host *lab.Host, device string) error {
	return nftables(host, fmt.Sprintf("add table netdev trial\n"+
		"add chain netdev trial arriving { type filter hook ingress device %s priority -500; policy drop; }\n", device))
}

func dropNoMore(host *lab.Host) error { return nftables(host, "delete table netdev trial\n") }

// nftables runs nft with a script.
func nftables(host *lab.Host, script string) error {
	cmd := host.Command(context.Background(), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// forwarded sends a packet 100 times and returns how often rules of the forward hook see it.
func (x *flowLab) forwarded(f *frame) (int, error) {
	family := nft.FamilyName(x.family)
	err := nftables(x.lab.Node.Host, fmt.Sprintf("table %s trial-count { counter forwarded {}; "+
		"chain forward { type filter hook forward priority filter; counter name forwarded; }; }", family))
	if err != nil {
		return 0, err
	}
	for range 100 {
		if _, err := unix.Write(f.fd, f.bytes); err != nil {
			return 0, fmt.Errorf("send a captured packet: %w", err)
		}
	}
	out, err := x.lab.Node.Command(context.Background(), "nft", "reset", "counter", family, "trial-count", "forwarded").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("read a counter: %w: %s", err, out)
	}
	_, text, _ := strings.Cut(string(out), "packets ")
	var seen int
	_, err = fmt.Sscan(text, &seen)
	return seen, errors.Join(err, nftables(x.lab.Node.Host, "delete table "+family+" trial-count"))
}
