// Package statustest says what documents of two sources must have in common.
package statustest
