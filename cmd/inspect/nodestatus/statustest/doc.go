// Package statustest says what documents of two sources must have in common, and runs
// functions of tests as other users.
package statustest
