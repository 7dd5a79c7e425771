// Package soak holds the test that a change to one Service disturbs no other: three
// Services go through all that a Service can be, many times a second, while
// clients use fifty others without a pause.
//
//	pod, node, outside --- new connections ---> 50 Services that stay  --> endpoints
//	pod, node, outside --- long-lived flows --> the same                      |
//	nobody waits for ------------------------> 3 Services that change  --> the same
//
// Every question must be answered, by one of the Service's own endpoints, the
// same as before where the Service promises that. How long this goes on is told
// by the flag -soak:
//
//	go test ./integration/soak -soak 10m
package soak
