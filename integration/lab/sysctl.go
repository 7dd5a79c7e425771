package lab

import (
	"fmt"
	"os"
	"path/filepath"
)

// sysctl is a setting under /proc/sys/net of one network namespace.
type sysctl struct{ key, value string }

// hostSysctls make a host predictable. New interfaces inherit "default".
var hostSysctls = []sysctl{
	// Allow asymmetric routes.
	{"ipv4/conf/all/rp_filter", "0"},
	{"ipv4/conf/default/rp_filter", "0"},
	// Addresses work immediately.
	{"ipv6/conf/all/disable_ipv6", "0"},
	{"ipv6/conf/default/disable_ipv6", "0"},
	{"ipv6/conf/all/accept_dad", "0"},
	{"ipv6/conf/default/accept_dad", "0"},
	// Only the lab sets routes, even if a packet leaves by the interface it came from.
	{"ipv6/conf/default/accept_ra", "0"},
	{"ipv6/conf/default/accept_redirects", "0"},
	{"ipv4/conf/all/accept_redirects", "0"},
	{"ipv4/conf/default/accept_redirects", "0"},
	// No rate limit for ICMP errors, so that every refusal is reported. IPv6 needs a
	// non-empty list of limited types, so it has a reserved one.
	{"ipv4/icmp_ratemask", "0"},
	{"ipv6/icmp/ratemask", "127"},
}

// nodeSysctls also make a host a router.
var nodeSysctls = []sysctl{
	{"ipv4/ip_forward", "1"},
	{"ipv6/conf/all/forwarding", "1"},
	{"ipv6/conf/default/forwarding", "1"},
	{"ipv4/conf/all/send_redirects", "0"},
	{"ipv4/conf/default/send_redirects", "0"},
}

// set writes settings. /proc/sys/net belongs to the namespace of the thread that
// opens a file there.
func (h *Host) set(settings []sysctl) error {
	return h.Do(func() error {
		for _, s := range settings {
			if err := os.WriteFile(filepath.Join("/proc/sys/net", s.key), []byte(s.value), 0); err != nil {
				return fmt.Errorf("set sysctl %s of %s: %w", s.key, h.Name, err)
			}
		}
		return nil
	})
}
