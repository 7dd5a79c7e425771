// Package top runs kube-vmap top on a node with a proxy, and compares its numbers with the
// connections that are made.
//
//	client ----connections----> Service --> endpoint
//	  |                            |
//	  number of connections == kube-vmap top
//
// Needs root.
package top
