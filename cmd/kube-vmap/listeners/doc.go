// Package listeners finds TCP ports on which other processes listen, in the network
// namespace of the calling thread. It needs no permission to see those processes: a
// container without the host's process IDs sees nothing else of them.
//
//	/proc/thread-self/net/tcp, tcp6   listening sockets: port, inode
//	/proc/self/fd                     inodes of our own sockets
package listeners
