// Package kubeproxy finds what kube-proxy has in the kernel, whatever its mode, suspends and
// resumes it, and removes it after our own rules are installed. Objects of other programs are
// not touched.
//
// [Find] reads what translates packets. [Found.Suspend] and [Found.Resume] return changes for a
// batch with our own, so that exactly one of the two proxies is in effect at any time: each
// chain at which its rules begin gets a rule at its head that returns, and loses it again.
// These are the base chains of nftables mode, and in the other modes the chains to which a hook
// of iptables leads.
//
// Virtual servers of IPVS need no suspension: our chains at dstnat translate a connection
// before IPVS sees it. What iptables-legacy wrote is only noticed, by [FindLegacy].
//
// [Remove] removes it:
//
//	mode      what it left                            how it is removed
//	nftables  tables ip kube-proxy, ip6 kube-proxy    \  one transaction
//	iptables  KUBE-* chains of tables nat, filter     |  per family
//	          and mangle, and the jumps to them       /
//	ipvs      as iptables, and virtual servers,       one by one, and only
//	          ipsets, and the device kube-ipvs0       if that device exists
//
// The tables of iptables are shared with other programs. kube-proxy's chains are known by
// their names (see chains.go); of the rules in other chains, only the jumps from a
// hook to kube-proxy's chains are removed. [Table.Plan] decides this without a kernel.
//
// The kernel refuses the transaction if nf_tables changed since it was read. Then the rules
// at the hooks, which are few, are read again; and in the end everything, to find out
// whether the first read missed something.
//
// Each part may be missing, and no kernel module is loaded to find out.
package kubeproxy
