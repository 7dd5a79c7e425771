package kubeproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"

	"kube-vmap/nft/kernel/rtnetlink"
)

// IPVSDevice is the name of the dummy device to which kube-proxy's ipvs mode adds the addresses of
// Services. IPVS and ipsets may as well belong to another program, such as keepalived. The device
// proves that kube-proxy ran in this mode here; without it nothing is touched. It is removed last,
// and only after everything else was, so what could not be removed is removed next time.
const IPVSDevice = "kube-ipvs0"

func hasIPVSDevice(netNS int) (exists bool, err error) {
	err = withIPVSDevice(netNS, func(*netlink.Handle, netlink.Link) error {
		exists = true
		return nil
	})
	return exists, err
}

// removeIPVS removes everything, if the device exists. The result names what was removed.
func removeIPVS(netNS int, except []netip.Prefix) (removed []string, err error) {
	err = withIPVSDevice(netNS, func(h *netlink.Handle, device netlink.Link) error {
		servers, err := openAndRemoveServers(netNS, except)
		if servers > 0 {
			removed = append(removed, fmt.Sprintf("virtual servers of IPVS (%d)", servers))
		}
		sets, e := RemoveIPSets(netNS)
		if len(sets) > 0 {
			removed = append(removed, "ipsets "+strings.Join(sets, ", "))
		}
		if err := errors.Join(err, e); err != nil {
			return err
		}
		if err := h.LinkDel(device); err != nil {
			return fmt.Errorf("remove device %s: %w", IPVSDevice, err)
		}
		removed = append(removed, "device "+IPVSDevice)
		return nil
	})
	return removed, err
}

// withIPVSDevice calls fn with the device, if it exists. One of that name that is not a dummy was
// not created by kube-proxy.
func withIPVSDevice(netNS int, fn func(*netlink.Handle, netlink.Link) error) error {
	h, err := rtnetlink.Open(netNS)
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(IPVSDevice)
	var missing netlink.LinkNotFoundError
	if err != nil && !errors.As(err, &missing) {
		return fmt.Errorf("find device %s: %w", IPVSDevice, err)
	}
	if _, dummy := link.(*netlink.Dummy); !dummy {
		return nil
	}
	return fn(h, link)
}
