// Package ipset asks the kernel whether sets of ipset have what a packet has. It needs no
// program of ipset.
//
//	match "set" of iptables: index, directions
//	     |  IPSET_CMD_GET_BYINDEX, IPSET_CMD_HEADER    name, type, family
//	     v
//	the parts of the key by the type, "hash:ip,port": address, protocol and port
//	     |  IPSET_CMD_TEST                             the kernel looks it up
//	     v
//	found or not
//
// The kernel looks up the key as it does for a packet: ranges, exceptions and timeouts need not
// be known here, and large sets are not read. Only a set of sets is read, to test its members.
// What the key of a packet has is that of the functions *_kadt of net/netfilter/ipset; the
// attributes are those of include/uapi/linux/netfilter/ipset/ip_set.h.
package ipset
