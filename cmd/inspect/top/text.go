package top

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
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

// width returns the columns that a text takes on a terminal.
func width(s string) int { return runewidth.StringWidth(s) }

// pad pads a text with spaces, on the left if it is a number.
func pad(s string, columns int, number bool) string {
	if number {
		return runewidth.FillLeft(s, columns)
	}
	return runewidth.FillRight(s, columns)
}

// unknown replaces a number that is not known.
const unknown = "-"

func rateText(rate float64, known bool) string {
	if !known {
		return unknown
	}
	return strconv.FormatFloat(rate, 'f', 1, 64)
}
