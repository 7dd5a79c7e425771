// Package flows tests which flows are deleted, in the connection tracking of a real kernel: the
// tests write entries without the code under test. It has tests only.
package flows
