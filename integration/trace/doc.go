// Package trace tests the tracer on a real kernel: packets go from pod to pod through our
// tables and those of other programs, and their paths are compared with what happened to
// them. It has tests only.
package trace
