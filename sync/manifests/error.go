package manifests

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Error says what is wrong with a manifest and where. The rest of the
// file is used all the same.
type Error struct {
	// File is the path of the file as it was read.
	File string
	// Document is the number of the YAML document in the file, from 1; zero if
	// the error concerns the whole file. Empty documents do not count.
	Document int
	// Object is the object's kind and name, "Service default/web"; empty if that
	// cannot be read.
	Object string
	// Warning tells of what is odd but not bad: a field that nobody knows, of which
	// the API server, too, only warns, or an object that cannot be served.
	Warning bool
	// Err names the line or the field. It is a *field.Error where the content
	// of a well-formed object is at fault.
	Err error
}

// Error is everything that is known of the place, then the error itself.
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

// printable is a name that nobody has checked in a form that no terminal takes for
// anything else.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// Unwrap is the error without the place.
func (e *Error) Unwrap() error { return e.Err }
