// Package looptest runs [sync.Loop] on a kernel of the caller's, real or not, in
// a time that passes only when everybody waits (testing/synctest): through
// scripts ([Run]) and through random histories ([History]).
//
// A script is a txtar archive: commands, a line each, then the files they name.
// After each command the test goes on when the loop has nothing left to do but
// wait. Lines that begin with # are comments.
//
// What the source knows:
//
//	service NAME ADDRESS... [PORT=]NUMBER/PROTOCOL... [local] [age=N]
//	slice NAME SERVICE [PORT=]NUMBER/PROTOCOL... ENDPOINT...
//	node [ZONE]
//	cidrs [PREFIX...]
//	delete service|slice NAME
//
// An ENDPOINT is an address, with @NODE and ~ZONE behind it for where it runs
// and for the zone that should prefer it. The proxy's own node is node-1. Of two
// Services the one with the higher age is older. Names are of namespace default.
//
//	burst     send what was said since the last burst; the first one of a loop
//	          holds everything
//
// The loop:
//
//	start     run a new loop
//	stop      end its context, and check that this is no error
//	fail      let the source fail, and check that this ends the loop
//	ready yes|no   check whether it is
//	wait TIME      let time pass
//
// The kernel:
//
//	hold      let batches wait in the kernel
//	release   let them through
//	refuse SERVICE ERRNO [N]   refuse every batch, or N, that adds something of it
//	accept SERVICE         no more
//	faults FAULT [N]       let the next N calls fail: refused, denied, cut,
//	                       unanswered, unread (see package kerneltest)
//	heal                   no failures any more
//	vandal delete tables | flush CHAIN | empty SET   as another program
//	disturb                another program changes tables of its own
//
// What is expected:
//
//	holds FILE     the kernel holds this: a line for each address and port with
//	               the chain it goes to and its endpoints in the order of their
//	               slots, then other sets
//	looks FILE     a look at the loop shows this: whether it is ready, and sure what
//	               the kernel holds, then what stands and what is known
//	right yes|no   the kernel holds what it should by all that was said, but for
//	               the sizes of sets and the order of slots
//	batches N      how many the kernel took since last asked
//	reads N        how often it was read since last asked, or tried to
//	logged N TEXT  how many lines of the log contain the text
//
// A number may be a range, N-M, where delays are longer or shorter by chance.
// At the end of a script what was said is also what the kernel holds.
package looptest
