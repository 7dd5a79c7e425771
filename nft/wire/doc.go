// Package wire is the netlink form of the rule set: it encodes a batch as the bytes of
// one nf_tables transaction, decodes the kernel's replies, and explains its refusals. It
// does no I/O; the sockets are in kube-vmap/nft/kernel.
//
//	nft.Batch  --Encode-->  Encoded{Bytes}  --kernel-->  committed
//	Error      <--Explain--  message 17, offset 88, EEXIST
//	nft.Tables <--Decode, DecodeElements--  dumps of chains, rules, sets and elements
//
// Every op of a batch is one message, or several if it lists more elements than one
// message takes (64 KiB). [Encoded] remembers which op, and which of its elements, each
// message began with. So the sequence number and the byte offset of a refusal identify
// the refused element, and the Service port that it serves: see [Error].
//
// Rules are written as expressions and never decoded: kernels differ in what they add
// to an expression. A rule carries the fingerprint of its text in its userdata instead,
// and rules are compared by that ([nft.Rule.Fingerprint]).
//
// # Why not google/nftables
//
// Expressions are marshalled by github.com/google/nftables/expr. Everything else is encoded
// here and not by that library's Conn, for these reasons:
//
//   - Conn allocates for every element and attribute: 2 million allocations and 210 ms for
//     330,000 elements, where one buffer takes 5 ms for the bytes alone. Rules are sent with
//     NLM_F_ECHO, and the kernel copies each of them back.
//   - It does not report which element of a message was refused, so one bad Service port
//     would stop all others.
//   - It reads dumps in small pieces, and the kernel walks the set from its start for each:
//     15 s or more for 300,000 elements, instead of 2 s.
//   - It opens sockets, which packages other than nft/kernel must not.
package wire
