// Package faults holds what goes wrong in clusters, one Service at a time, and what a
// person does who has nothing but the README and --help: a command whose answer tells
// why. Each fault is made, is felt by a client, and then asked about, over each
// protocol in both families.
package faults
