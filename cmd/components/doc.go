// Package components finds the programs on a node that also have to do with its packets: the
// CNI plugin, policy engines, firewalls, service meshes, load balancers and other Service
// proxies. It reads signs that they leave, and changes nothing.
//
//	Read                                   Find
//	tables and chains   nft/kernel/dump  |
//	interfaces          net.Interfaces     |   known.yaml:                  [Finding]
//	processes           /proc/PID/comm     +-> a component, its signs,  --> component, mode,
//	listening ports     /proc/PID/net/tcp  |   its modes                    evidence
//	CNI configuration   /etc/cni/net.d     |
//
// known.yaml is the one table of programs: what they leave, whether kube-vmap works beside them,
// whether the fast path does, and their rows in docs/compatibility.md. A component counts as
// there if one of its signs is. One that was uninstalled may have left signs, so a finding lists
// its evidence.
//
// Read needs no privilege to run, but sees more with it: CAP_NET_ADMIN for tables and
// chains, the host's process IDs for processes. What could not be seen is in [Node.Unseen].
package components
