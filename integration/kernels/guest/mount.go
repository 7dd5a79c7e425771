package main

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// mounts are the file systems that programs expect.
var mounts = []struct {
	kind, at string
	data     string
}{
	{"devtmpfs", "/dev", ""},
	{"proc", "/proc", ""},
	{"sysfs", "/sys", ""},
	{"tmpfs", "/tmp", "mode=1777"},
	{"tmpfs", "/run", "mode=755"},
}

// prepare mounts file systems and configures the network.
func prepare() error {
	if err := mountAll(); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	if err := loadEarly(); err != nil {
		return err
	}
	return trackMany()
}

// trackMany lets the kernel track as many connections as kube-vmap wants on two
// processors. The limits are for the whole machine: kube-vmap can set them on a node, but
// not in the namespaces of tests.
func trackMany() error {
	for name, value := range map[string]string{"nf_conntrack_max": "131072", "nf_conntrack_buckets": "32768"} {
		if err := os.WriteFile("/proc/sys/net/netfilter/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("set the limit of tracked connections: %w", err)
		}
	}
	return nil
}

// mountAll mounts the file systems.
func mountAll() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		err := unix.Mount(m.kind, m.at, m.kind, 0, m.data)
		if err != nil && err != unix.EBUSY { // the kernel may have mounted /dev itself
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}
