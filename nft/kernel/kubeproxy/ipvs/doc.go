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
