// Package ipvs removes what kube-proxy's ipvs mode left besides chains of iptables: virtual
// servers of IPVS, ipsets that its rules used, and the dummy device that held the addresses
// of Services.
//
// IPVS and ipsets may as well belong to another program, such as keepalived. The device
// kube-ipvs0 proves that kube-proxy ran in this mode here; without it nothing is touched.
// For the same reason the device is removed last, and only after everything else was: what
// could not be removed is removed next time.
//
// While it ran, kube-proxy considered every virtual server its own that has an address which
// is not in its excludeCIDRs, and removed those it did not know. So does this package.
//
// No library that we depend on has this: github.com/vishvananda/netlink knows nothing of
// IPVS, and its IpsetDestroy does not report whether the set existed.
package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"

	"kube-vmap/nft/kernel/rtnetlink"
)

// Device is the name of the dummy device to which kube-proxy's ipvs mode adds the addresses
// of Services.
const Device = "kube-ipvs0"

// Config is the configuration of [Remove].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
	// ExcludeCIDRs are ranges whose virtual servers are not kube-proxy's.
	ExcludeCIDRs []netip.Prefix
}

// Exists reports whether kube-proxy's device exists. For netNS see [Config].
func Exists(netNS int) (exists bool, err error) {
	err = withDevice(netNS, func(*netlink.Handle, netlink.Link) error {
		exists = true
		return nil
	})
	return exists, err
}

// Remove removes everything, if the device exists. The result names what was removed.
func Remove(c Config) (removed []string, err error) {
	err = withDevice(c.NetNS, func(h *netlink.Handle, device netlink.Link) error {
		servers, err := openAndRemoveServers(c)
		if servers > 0 {
			removed = append(removed, fmt.Sprintf("virtual servers of IPVS (%d)", servers))
		}
		sets, e := RemoveIPSets(c.NetNS)
		if len(sets) > 0 {
			removed = append(removed, "ipsets "+strings.Join(sets, ", "))
		}
		if err := errors.Join(err, e); err != nil {
			return err
		}
		if err := h.LinkDel(device); err != nil {
			return fmt.Errorf("remove device %s: %w", Device, err)
		}
		removed = append(removed, "device "+Device)
		return nil
	})
	return removed, err
}

// withDevice calls fn with the device, if it exists. One of that name that is not a dummy was not
// created by kube-proxy.
func withDevice(netNS int, fn func(*netlink.Handle, netlink.Link) error) error {
	h, err := rtnetlink.Open(netNS)
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(Device)
	var missing netlink.LinkNotFoundError
	if err != nil && !errors.As(err, &missing) {
		return fmt.Errorf("find device %s: %w", Device, err)
	}
	if _, dummy := link.(*netlink.Dummy); !dummy {
		return nil
	}
	return fn(h, link)
}
