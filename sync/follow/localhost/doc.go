// Package localhost serves TCP node ports on the loopback addresses 127.0.0.1 and ::1
// (KEP-6032), with a proxy between a client on the node and the Service.
//
//	client --> 127.0.0.1:30080 --> Proxy --> 192.0.2.7:30080 --> nftables --> endpoint
//	           ::1:30080                     (the node itself)
//
// # Why a proxy
//
// The kernel cannot translate a connection to 127.0.0.1 and send it to another machine: packets
// from or to loopback addresses must not leave or enter the node. The sysctl route_localnet lifts
// both restrictions for a whole interface: then hosts on the same link can reach programs that
// listen on 127.0.0.1 and expect local clients only (CVE-2020-8558), unless another rule prevents
// it. IPv6 has no such sysctl. A proxy needs neither. In exchange its connections end with this
// process, their data passes through it (by splice(2)), and only TCP is served, since the end of a
// UDP flow cannot be known.
//
// # Where it connects to
//
// It connects to one of the node's own addresses at the node port. So each connection is
// handled like any other from the node to a node port: all endpoints whatever the
// externalTrafficPolicy, hints, scheduler and affinity, with state in the kernel that
// survives a restart. (kube-proxy's proxy of KEP-6032 chooses endpoints itself, and only
// those on the node if externalTrafficPolicy is Local.) The Service sees the node's
// address as the source, so for affinity all clients of the proxy are one.
//
// If the node serves node ports on no other address of the family, the proxy connects to
// the ClusterIP instead, where internalTrafficPolicy applies: if it is Local, only
// endpoints on the node serve.
package localhost
