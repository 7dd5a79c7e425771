// Package trace tests what a tracer tells of packets, on a real kernel: packets go
// from pod to pod through our tables and through those of others, and the walks that
// come out are compared with what became of the packets. It has nothing but tests.
package trace
