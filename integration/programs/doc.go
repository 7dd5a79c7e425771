// Package programs tests that package cmd/programs finds what other programs left in a
// real kernel: their own tables, and chains in both backends of iptables.
package programs
