package nodes

import (
	"bytes"
	"reflect"
	"strings"
	"unicode"
)

// CleanText returns a text for a terminal: control characters, with which a node or an
// object could write anything there, become question marks.
func CleanText(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, text)
}

// mayControl reports whether JSON may have a control character in a string: escaped, DEL,
// or one of U+0080 to U+009F.
func mayControl(text []byte) bool {
	return bytes.Contains(text, []byte(`\u00`)) || bytes.IndexByte(text, 0x7f) >= 0 || bytes.IndexByte(text, 0xc2) >= 0
}

// clean removes control characters from all strings of a value that was decoded from JSON.
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
		if text := CleanText(v.String()); v.CanSet() && text != v.String() {
			v.SetString(text)
		}
	}
}
