// Package socket is what all readers and writers below nft/kernel share: it opens netlink
// sockets of netfilter, sends requests and reads the replies.
//
//	conn, err := socket.Open(netNS)
//	request := socket.Nftables(unix.NFT_MSG_GETCHAIN, netlink.Dump, family, func(e *attr.Encoder) {
//		e.String(unix.NFTA_CHAIN_TABLE, "nat")
//	})
//	err = socket.Ask(conn, request, func(m netlink.Message) error { ... })
//
// A [Batch] is a transaction of nf_tables of a few messages: the table of a tracer, the
// removal of another program's chains. It is not for our own rule set: package kernel
// sends that as the bytes it was encoded to, without a copy per message.
//
// google/nftables has a batch, too. It is not used because its error does not say which
// object the kernel refused, and because its Conn does not return the port number of its
// socket, which the kernel reports as the owner of a table.
package socket
