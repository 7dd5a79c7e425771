// Package localhost serves TCP node ports on the loopback addresses 127.0.0.1 and
// ::1 (KEP-6032): a relay between a client on the node and the Service.
//
//	client --> 127.0.0.1:30080 --> Relay --> 192.0.2.7:30080 --> nftables --> endpoint
//	           ::1:30080                     (the node itself)
//
// # Why a relay
//
// The kernel cannot translate a connection to 127.0.0.1 and send it to another
// machine: a packet from a loopback address must not leave the node, nor one to
// such an address come in. The sysctl route_localnet lifts both, for a whole
// interface: then who is on the same link reaches whatever listens on 127.0.0.1
// in the belief that nobody can (CVE-2020-8558), unless yet another rule holds it
// up. And IPv6 has no such sysctl. A relay needs neither, in neither family. The
// price is that its connections end with this process, that their data passes it,
// by splice(2), and that only TCP is served: of UDP, nobody could tell when a
// flow is over.
//
// # What it connects to
//
// One of the node's own addresses, at the node port. So each connection takes the
// way that any other from the node to a node port takes, and what holds there
// holds here: all endpoints whatever externalTrafficPolicy says, hints, the
// scheduler, affinity, with state in the kernel that survives a restart; nothing
// of it is decided twice. (kube-proxy's relay of KEP-6032 chooses endpoints
// itself, and only those on the node under externalTrafficPolicy Local.) The
// Service sees the node's address as the source, never the loopback one; so to
// affinity, all clients of the relay are one.
//
// If the node serves node ports on no address of the family but this one, the
// relay connects to the ClusterIP instead. internalTrafficPolicy holds there: if
// it is Local, only endpoints on the node serve.
package localhost
