package manifests

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// An Error is a problem with a manifest and its place. The rest of the file is used nevertheless.
type Error struct {
	// File is the path of the file as it was read.
	File string
	// Document is the number of the YAML document in the file, from 1; zero if
	// it concerns the whole file. Empty documents do not count.
	Document int
	// Object is the object's kind and name, "Service default/web"; empty if they are unknown.
	Object string
	// Warning reports that the object is valid but suspicious: it has an unknown field, of
	// which also the API server only warns, or cannot be served.
	Warning bool
	// Err names the line or the field. It is a *field.Error if the object is well formed but
	// its content is invalid.
	Err error
}

// Error returns the place, then the error itself.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(printable(e.File))
	if e.Document > 0 {
		fmt.Fprintf(&b, ": document %d", e.Document)
	}
	if e.Object != "" {
		b.WriteString(": " + printable(e.Object))
	}
	return b.String() + ": " + e.Err.Error()
}

// printable quotes a name that was not validated if it has characters that a terminal
// would interpret.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// Unwrap returns the error without the place.
func (e *Error) Unwrap() error { return e.Err }
