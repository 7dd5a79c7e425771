// Package listen keeps TCP sockets open for Services, on addresses and ports of
// their own: as many as are asked for, none longer than that.
//
//	Change --> asked ----> bind, listen ----> serve(socket, listener), each in a goroutine
//	             ^              | refused         | ended though nobody closed it
//	             '--- 1 s to 1 min later ---------'
//
// That a port belongs to another program is not found out before, and nothing
// that can be done about it here: it is logged, an event at the Service says so,
// and it is tried again, less and less often, while all other sockets go on. One
// goroutine opens and closes; no call that it makes waits for anybody.
package listen
