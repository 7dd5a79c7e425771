// Package ipvs removes what kube-proxy's ipvs mode left besides chains of
// iptables: virtual servers of IPVS, sets that its rules read, and a dummy device
// that held the Services' addresses.
//
// IPVS and sets may just as well be somebody else's, keepalived's for one. That
// kube-proxy ran in this mode here is proved by its device kube-ipvs0; without it
// nothing is touched. For the same reason the device goes last, and only after
// all else is gone: what was left for a reason that passes goes next time.
//
// While it ran, kube-proxy took every virtual server for its own that is not in
// its excludeCIDRs and has an address, and removed those it did not know; here
// they are taken for the same.
package ipvs
