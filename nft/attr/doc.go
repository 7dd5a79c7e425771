// Package attr encodes and decodes netlink messages and their attributes. It is pure:
// bytes in, bytes out. The sockets are in kube-vmap/nft/kernel.
//
// A netlink message is a header and a list of attributes; an attribute is a length, a
// kind and a value, padded to 4 bytes, and its value may again be such a list:
//
//	| length 4 | type 2 | flags 2 | sequence 4 | port 4 |       netlink header
//	| family 1 | version 1 | resource 2 |                       netfilter header
//	| length 2 | kind 2 | value ... | padding |                 attribute
//	| length 2 | kind 2 | | length 2 | kind 2 | value ... |     nested attribute
//
// An [Encoder] appends to one buffer:
//
//	var e attr.Encoder
//	e.OpenMessage(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWCHAIN, unix.NLM_F_REQUEST)
//	e.NetfilterHeader(unix.NFPROTO_IPV4, 0)
//	e.String(unix.NFTA_CHAIN_TABLE, "kube-vmap")
//	hook := e.OpenNested(unix.NFTA_CHAIN_HOOK)
//	e.Uint32(unix.NFTA_HOOK_HOOKNUM, unix.NF_INET_PRE_ROUTING)
//	e.Close(hook)
//	e.CloseMessage()
//
// Without OpenMessage and CloseMessage the buffer is the body of a message, for
// libraries that write the netlink header themselves. A [Decoder] ranges over
// attributes in place and keeps the first error:
//
//	var d attr.Decoder
//	for kind, value := range d.Attributes(d.Body(message)) {
//		switch kind {
//		case unix.NFTA_CHAIN_NAME:
//			name = attr.String(value)
//		case unix.NFTA_CHAIN_HANDLE:
//			handle = d.Uint64(value)
//		}
//	}
//	return d.Err()
//
// The project has a codec of its own, and one only, for three reasons. A first load is
// a batch of 100,000 elements and more, with about ten attributes each: the encoders of
// the netlink libraries allocate for every one of them, this one does not allocate at
// all once its buffer is large enough. The kernel names the message that it refuses by
// its sequence number and a byte offset, so whoever encodes must know where in the
// buffer each message begins (see kube-vmap/nft/wire). And packages other than
// nft/kernel do not import a library that can open a socket.
//
// Numbers are in network byte order, as in all of netfilter; the methods whose names
// begin with Native are for the subsystems that use the byte order of the machine
// (generic netlink, rtnetlink).
package attr
