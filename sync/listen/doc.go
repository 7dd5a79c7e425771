// Package listen keeps TCP sockets open for Services, on addresses and ports of their
// own, for as long as they are wanted.
//
//	Change --> wanted ----> bind, listen ----> serve(socket, listener), each in a goroutine
//	              ^              | failed          | ended although not closed
//	              '---- 1 s to 1 min later --------'
//
// A port that another program uses cannot be known before and is not an error of the
// proxy: it is logged, recorded as an event of the Service and retried with backoff,
// without affecting other sockets. One goroutine opens and closes; none of its calls
// blocks.
package listen
