package ipvs

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Device is the name of the dummy device that kube-proxy's ipvs mode gives the
// Services' addresses.
const Device = "kube-ipvs0"

// device is kube-proxy's device.
type device struct {
	handle *netlink.Handle
	link   netlink.Link
}

// openDevice finds the device; nil if there is none. A device of the name that is
// no dummy was not made by kube-proxy.
func openDevice(netNS int) (*device, error) {
	h, err := netlink.NewHandleAt(namespace(netNS), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a routing socket: %w", err)
	}
	link, err := h.LinkByName(Device)
	if err == nil {
		if _, dummy := link.(*netlink.Dummy); dummy {
			return &device{h, link}, nil
		}
	}
	h.Close()
	var missing netlink.LinkNotFoundError
	if err != nil && !errors.As(err, &missing) {
		return nil, fmt.Errorf("look for device %s: %w", Device, err)
	}
	return nil, nil
}

// namespace is a network namespace as package netlink wants it named.
func namespace(fd int) netns.NsHandle {
	if fd == 0 {
		return netns.None()
	}
	return netns.NsHandle(fd)
}

func (d *device) close() { d.handle.Close() }

func (d *device) remove() error {
	if err := d.handle.LinkDel(d.link); err != nil {
		return fmt.Errorf("remove device %s: %w", Device, err)
	}
	return nil
}
