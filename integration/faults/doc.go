// Package faults tests that the README and --help are enough to find the cause of common
// faults of single Services. Each fault is caused, felt by a client, and then explained by
// a command, over each protocol in both families.
package faults
