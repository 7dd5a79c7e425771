// Package inspect tests the commands that look at rule sets as a whole: diff, render
// and bundle, with the program at work on a node, and without it.
package inspect
