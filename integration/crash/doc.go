// Package crash tests that the proxy may be killed at any moment.
//
//	folder: 10 stable Services      20 churning ones
//	   |                                | versions, written one after the other
//	   +---------------+----------------+
//	                   v
//	     proxy: start, change, kill -9; start, change, kill -9; ...
//	                   |         |
//	                   v         +--> the kernel holds exactly one version
//	               the kernel
//	                   ^
//	clients use the stable Services all the time: nothing ever fails
//
// A version is recognised by the tables it leads to when it is programmed from scratch in
// another kernel namespace. So a mixture of two versions is detected, and so is anything
// left over.
//
// The flag -kills sets how often the proxy is killed:
//
//	go test ./integration/crash -run Kill -kills 5000 -timeout 1h
package crash
