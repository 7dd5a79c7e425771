// Package takeover tests what kube-vmap does on a node, besides its own rules, when it replaces
// kube-proxy: it removes what kube-proxy left, and configures connection tracking as kube-proxy
// did. Each test runs in a new network namespace, as root.
//
//	testdata/foreign.*                        loaded first, listed
//	testdata/iptables.* ipvs.* nftables.nft   loaded in addition: kube-proxy
//	removal                                   the listing is the same as before
//
// The files for iptables are output of iptables-save; most of kube-proxy's was recorded from the
// real one. Rules of IPv6 that differ in addresses only are translated. They are loaded by the
// tools of iptables-nft, and of iptables-legacy to be noticed there.
package takeover
