package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/flowtable"
	"kube-vmap/sync/fastpath"
)

// missingFlowtable returns an error if the kernel has no flowtables.
func missingFlowtable() error {
	host, done, err := lab.Alone()
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	t, _, err := flowtable.Add(host.FD(), []string{"lo"}, fastpath.DefaultAfter)
	if err != nil {
		return err
	}
	return t.Close()
}

// useFlowtable adds the table of the fast path for all devices of the node, or removes it and
// what it makes the kernel count.
func (x *flowLab) useFlowtable(on bool) error {
	node := x.lab.Node.Host
	if x.flowtable != nil {
		if err := x.flowtable.Close(); err != nil {
			return err
		}
		x.flowtable = nil
	}
	if on {
		devices := []string{"eth0", x.client.Link, x.server[0].Link}
		if x.bridge {
			devices = append(devices, lab.BridgeName)
		}
		t, _, err := flowtable.Add(node.FD(), devices, fastpath.DefaultAfter)
		x.flowtable = t
		return err
	}
	return node.Do(func() error { return os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_acct", []byte("0"), 0) })
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
