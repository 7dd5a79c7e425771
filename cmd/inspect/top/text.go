package top

import (
	"strconv"
	"strings"
	"unicode"

	eastasian "golang.org/x/text/width"
)

// unprintable replaces all runes that are not printable.
const unprintable = '?'

// Clean makes a text safe to print in a line: names from the API could contain control
// characters, escape sequences, or marks that reverse text.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		// Combining marks are printable, but change the character before them.
		if !unicode.IsPrint(r) || unicode.Is(unicode.M, r) || r == unicode.ReplacementChar {
			return unprintable
		}
		return r
	}, s)
}

// width returns the columns that a text that [Clean] returned takes on a terminal.
func width(s string) (columns int) {
	for _, r := range s {
		columns++
		if k := eastasian.LookupRune(r).Kind(); k == eastasian.EastAsianWide || k == eastasian.EastAsianFullwidth {
			columns++
		}
	}
	return columns
}

// pad pads a text with spaces, on the left if it is a number.
func pad(s string, columns int, number bool) string {
	spaces := strings.Repeat(" ", max(columns-width(s), 0))
	if number {
		return spaces + s
	}
	return s + spaces
}

// unknown replaces a number that is not known.
const unknown = "-"

func rateText(rate float64, known bool) string {
	if !known {
		return unknown
	}
	return strconv.FormatFloat(rate, 'f', 1, 64)
}
