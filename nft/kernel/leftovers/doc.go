// Package leftovers removes what kube-proxy left in the kernel, in whichever of
// its modes it ran, once our own rules stand. Nothing of anybody else is
// touched.
//
//	mode      what it left                            how it goes
//	nftables  tables ip kube-proxy, ip6 kube-proxy    \  one transaction
//	iptables  KUBE-* chains of tables nat, filter     |  per family
//	          and mangle, and the jumps to them       /
//	ipvs      as iptables, and virtual servers,       package ipvs, and only
//	          sets, and the device kube-ipvs0         if that device is there
//
// The tables of iptables are shared with others, so what is kube-proxy's is told
// by name ([IsKubeProxyChain]), and of the rules in other chains only those go that hang
// kube-proxy's chains into a hook. [Table.Plan] decides it, without a kernel, for
// both backends of iptables: what iptables-nft wrote is removed here, over
// netlink; what iptables-legacy wrote lies where only its own tools reach, and is
// the business of the command.
//
// What is read is the basis of what is written: the kernel refuses a transaction
// if anybody wrote nf_tables in between. Then the rules at the hooks are read
// again, which are few, and in the end everything, to see whether the first
// reading missed something. There is no need to know rules, of which
// iptables-nft's are full of xtables' binary matches, but for the chain to which
// they lead.
//
// All of it may be absent, each part for itself, and no kernel module is asked
// for.
package leftovers
