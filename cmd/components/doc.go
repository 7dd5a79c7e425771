// Package components finds the programs on a node that also have to do with its packets: the
// CNI plugin, policy engines, firewalls, service meshes, load balancers and other Service
// proxies. It reads signs that they leave, and changes nothing.
//
//	Read                                   Find
//	tables and chains   nft/kernel/dump    |
//	interfaces          net.Interfaces     |   known (known.go):            [Finding]
//	processes           /proc/PID/comm     +-> a component, its signs,  --> component, mode,
//	listening ports     /proc/PID/net/tcp  |   its modes                    evidence
//	CNI configuration   /etc/cni/net.d     |
//
// Each sign has its origin in a comment: the file of the project that defines the name. A
// component counts as there if one of its signs is. A component that was uninstalled may
// have left signs, so a finding lists its evidence.
//
// Read needs no privilege to run, but sees more with it: CAP_NET_ADMIN for tables and
// chains, the host's process IDs for processes. What could not be seen is in [Node.Unseen].
package components
