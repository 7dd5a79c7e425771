package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Config is the configuration of [Remove].
type Config struct {
	// NetNS is a file descriptor of a network namespace; zero means that of the
	// calling thread.
	NetNS int
	// ExcludeCIDRs are ranges whose virtual servers are not kube-proxy's.
	ExcludeCIDRs []netip.Prefix
}

// Remove removes everything, if the device exists. The result names what was removed.
func Remove(c Config) (removed []string, err error) {
	d, err := openDevice(c.NetNS)
	if d == nil || err != nil {
		return nil, err
	}
	defer d.close()
	servers, err := openAndRemoveServers(c)
	if servers > 0 {
		removed = append(removed, fmt.Sprintf("virtual servers of IPVS (%d)", servers))
	}
	sets, e := RemoveIPSets(c.NetNS)
	if len(sets) > 0 {
		removed = append(removed, "ipsets "+strings.Join(sets, ", "))
	}
	if err := errors.Join(err, e); err != nil {
		return removed, err
	}
	if err := d.remove(); err != nil {
		return removed, err
	}
	return append(removed, "device "+Device), nil
}
