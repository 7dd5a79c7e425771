// Package crash holds the tests that the built proxy may be killed at any moment,
// and that nothing a machine does to it breaks what stands in the kernel.
//
//	folder: 10 Services that stay     20 that change
//	   |                                  | versions, written one after the other
//	   +---------------+------------------+
//	                   v
//	     proxy: start, change, kill -9; start, change, kill -9; ...
//	                   |         |
//	                   v         +--> the kernel is read: exactly one version, and whole
//	               the kernel
//	                   ^
//	clients use the Services that stay, without a pause: nothing ever fails
//
// A version is known by what it leaves in a kernel of its own, where it is
// programmed from nothing. So a state that is partly of one version and partly of
// another is none, and neither is one with something left over. Beside that, the
// state is looked through for itself, whichever version it is.
//
// How often the proxy is killed is told by the flag -kills:
//
//	go test ./integration/crash -run Kill -kills 5000 -timeout 1h
package crash
