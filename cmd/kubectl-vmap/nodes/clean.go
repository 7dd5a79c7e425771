package nodes

import (
	"bytes"
	"reflect"
	"strings"
	"unicode"
)

// CleanText returns a text for a terminal: control characters, with which a node or an
// object could write anything there, become question marks. So do those that reverse the
// order of others, and separators of lines and paragraphs.
func CleanText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, text)
}

// cleanLine returns a text without control characters, in one line: with a line break, a
// node could add a row to a table.
func cleanLine(text string) string {
	return CleanText(strings.NewReplacer("\n", "; ", "\t", " ").Replace(text))
}

// mayControl reports whether JSON may have a control character in a string: escaped, DEL,
// or one that is not ASCII.
func mayControl(text []byte) bool {
	return bytes.ContainsFunc(text, func(r rune) bool { return r == '\\' || r >= 0x7f })
}

// cleanError is an error with a text of a node.
type cleanError struct{ error }

// maxError is how much of such a text is shown.
const maxError = 4 << 10

// Error implements error.
func (e cleanError) Error() string {
	text := e.error.Error()
	if len(text) > maxError {
		text = text[:maxError/2] + " ... " + text[len(text)-maxError/2:]
	}
	return cleanLine(text)
}

// Unwrap returns the error.
func (e cleanError) Unwrap() error { return e.error }

// clean makes all strings of a value that was decoded from JSON lines without control
// characters.
func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			clean(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				clean(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			clean(v.Index(i))
		}
	case reflect.String:
		if text := cleanLine(v.String()); v.CanSet() && text != v.String() {
			v.SetString(text)
		}
	}
}
