// Package inspect tests the commands that show whole rule sets, diff, render and bundle, with and
// without a running proxy on the node.
package inspect
