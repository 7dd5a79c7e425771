// Package top runs kube-vmap top on a node with a proxy at work, and compares what
// it shows with the connections that are made meanwhile.
//
//	client ----connections----> Service --> endpoint
//	  |                            |
//	  how many there were == kube-vmap top, as lines and on a terminal
//
// Needs root.
package top
