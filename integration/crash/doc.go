// Package crash tests that the proxy may be killed at any moment, and that nothing a
// machine does to it breaks what is installed in the kernel.
//
//	folder: 10 stable Services      20 churning ones
//	   |                                | versions, written one after the other
//	   +---------------+----------------+
//	                   v
//	     proxy: start, change, kill -9; start, change, kill -9; ...
//	                   |         |
//	                   v         +--> the kernel holds exactly one version, consistently
//	               the kernel
//	                   ^
//	clients use the stable Services all the time: nothing ever fails
//
// A version is recognised by the tables it leads to when it is programmed from scratch in
// another kernel namespace. So a mixture of two versions is detected, and so is anything
// left over. In addition, the tables are checked for consistency, whatever their version.
//
// The flag -kills sets how often the proxy is killed:
//
//	go test ./integration/crash -run Kill -kills 5000 -timeout 1h
package crash
