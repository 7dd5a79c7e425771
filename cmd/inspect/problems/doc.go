// Package problems is the command that lists what is not plainly balanced on a node. What
// that is, package findings decides.
package problems
