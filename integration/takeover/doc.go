// Package takeover holds the tests of what kube-vmap does to a node besides its
// own rules when it takes over from kube-proxy: it removes what kube-proxy left,
// and sets connection tracking up as kube-proxy did. Each runs in a fresh network
// namespace, as root.
//
//	testdata/foreign.*                        loaded first, listed
//	testdata/iptables.* ipvs.* nftables.nft   loaded beside it: kube-proxy
//	removal                                   the listing is what it was
//
// The files for iptables are texts of iptables-save, one for each IP family; most
// of what is kube-proxy's was recorded from the real one. They are loaded by the
// tools of both backends of iptables, iptables-nft and iptables-legacy.
package takeover
