// Package flows tests which flows end, in the connection tracking of a real
// kernel: entries are written there by one program and ended by another, and a
// third reads what is left. It has nothing but tests.
package flows
