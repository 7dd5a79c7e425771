// Package diagnosis runs the commands that show what a node does (get, problems, diff, render,
// bundle) in the network namespace of a node, beside the proxy, beside one that is stopped, and
// after its end, and compares what they count with the connections that are made.
//
//	clients --request--> Services --> endpoints, which respond with their names
//	   |                    |            |
//	   |                    '--> kube-vmap COMMAND
//	   +--- responses -------------------+---> ledger == what the kernel counted
//
// Needs root.
package diagnosis
