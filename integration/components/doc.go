// Package components tests that package cmd/components finds what other programs left in a
// real kernel: their own tables, and chains in both backends of iptables.
package components
