// Package soak tests that a change to one Service disturbs no other: three Services
// change at random, many times a second, while clients keep using fifty others.
//
//	pod, node, outside --- new connections ---> 50 Services that stay  --> endpoints
//	pod, node, outside --- long-lived flows --> the same                      |
//	                                            3 Services that change --> the same
//
// Every question must be answered by one of the Service's own endpoints, and by the
// same one as before if the Service promises that; endpoints have weights, and some are
// drained. The flag -soak sets how long
// this lasts:
//
//	go test ./integration/soak -soak 10m
package soak
