// Package looptest runs [sync.Loop] on a kernel of the caller, real or not, through
// scripts ([Run]) and random histories ([History]). Time passes only while all
// goroutines wait (testing/synctest).
//
// A script is a txtar archive: one command per line, then the files that they name.
// After each command the test continues when the loop has nothing left to do but wait.
// Lines that begin with # are comments.
//
// Objects of the source:
//
//	service NAME ADDRESS... [PORT=]NUMBER/PROTOCOL... [local] [age=N]
//	        [external=ADDRESS]... [affinity=TIMEOUT] [scheduler=NAME]
//	slice NAME SERVICE [PORT=]NUMBER/PROTOCOL... [weight=N] ENDPOINT...
//	node [ZONE]
//	cidrs [PREFIX...]
//	delete service|slice NAME
//
// An ENDPOINT is an address, with an optional @NODE that it runs on and ~ZONE that should
// prefer it. The proxy's own node is node-1. Of two Services the one with the higher age
// is older. Names are in namespace default.
//
//	burst     send the changes since the last burst; the first burst of a loop has all
//	          objects
//
// The loop:
//
//	start          run a new loop
//	stop           end its context, and check that this is not an error
//	ready yes|no   check whether it is ready
//	wait TIME      let time pass
//
// The kernel:
//
//	hold                       make batches wait
//	release                    let them through
//	refuse SERVICE ERRNO [N]   refuse every batch, or N, that adds something of it
//	accept SERVICE             refuse it no more
//	faults FAULT [N]           let the next N calls fail: refused, denied, not-sent,
//	                           no-answer, read (see package kerneltest)
//	clear                      no more faults
//	damage delete tables|FAMILY | flush CHAIN | empty SET   as another program
//	disturb                    another program changes tables of its own
//
// Expectations:
//
//	installed FILE   the kernel holds this: a line for each address and port with its
//	                 chain and its endpoints in the order of their slots, then the
//	                 ServiceCIDRs
//	snapshot FILE    a snapshot of the loop shows this
//	correct yes|no   the kernel holds the desired state, except the sizes of sets and the
//	                 order of slots
//	batches N        so many batches were accepted since the last check
//	reads N          the kernel was read so often since the last check, or failed to be
//	logged N TEXT    so many lines of the log contain the text
//
// N may be a range, N-M, where delays are random. At the end of each script the kernel
// must be correct.
package looptest
