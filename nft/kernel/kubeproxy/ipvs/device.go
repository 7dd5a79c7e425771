package ipvs

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"kube-vmap/nft/kernel/rtnetlink"
)

// Device is the name of the dummy device to which kube-proxy's ipvs mode adds the addresses
// of Services.
const Device = "kube-ipvs0"

// A device is kube-proxy's device.
type device struct {
	handle *netlink.Handle
	link   netlink.Link
}

// openDevice returns the device, or nil if there is none. A device of that name that is not
// a dummy was not created by kube-proxy.
func openDevice(netNS int) (*device, error) {
	h, err := rtnetlink.Open(netNS)
	if err != nil {
		return nil, err
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
		return nil, fmt.Errorf("find device %s: %w", Device, err)
	}
	return nil, nil
}

func (d *device) close() { d.handle.Close() }

func (d *device) remove() error {
	if err := d.handle.LinkDel(d.link); err != nil {
		return fmt.Errorf("remove device %s: %w", Device, err)
	}
	return nil
}

// Exists reports whether kube-proxy's device exists. For netNS see [Config].
func Exists(netNS int) (bool, error) {
	d, err := openDevice(netNS)
	if d == nil || err != nil {
		return false, err
	}
	d.close()
	return true, nil
}
