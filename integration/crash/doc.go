// Package crash tests that the proxy may be killed at any moment, and that a change to one
// Service disturbs no other.
//
//	folder: 25 stable Services      20 churning ones
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
// left over. Without kills, Services change many times a second.
//
// The flags -kills and -soak set how often the proxy is killed, and how long Services change:
//
//	go test ./integration/crash -run Kill -kills 5000 -timeout 1h
//	go test ./integration/crash -run Disturb -soak 10m
package crash
