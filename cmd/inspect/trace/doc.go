// Package trace prints the path of live packets, for "kube-vmap explain --trace": explain
// simulates a packet, this waits for one and shows what happened to it.
//
//	trace.Path --> packet 1  TCP 10.244.1.4:52950 > 10.96.0.10:80, in by veth3
//	                 prerouting
//	                   -100  ip kube-vmap nat-prerouting
//	                           ...
//	                         destination 10.96.0.10:80 becomes 10.244.1.2:8080
//	                 forward
//	                      0  inet firewall forward
//	                           ...
//	                 DROPPED by table inet firewall, chain forward, ...
package trace
