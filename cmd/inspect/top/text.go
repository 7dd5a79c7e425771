package top

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// unprintable is what stands for everything that is not a character to read.
const unprintable = '?'

// clean makes a text safe to print in a line: what comes from others may hold
// control characters, escape sequences, or marks that turn text around.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		// Marks are printable, but change what is before them, which may be ours.
		if !unicode.IsPrint(r) || unicode.Is(unicode.M, r) || r == unicode.ReplacementChar {
			return unprintable
		}
		return r
	}, s)
}

// width is how many columns a text takes on a terminal.
func width(s string) int { return runewidth.StringWidth(s) }

// pad fills a text with blanks, on its left if it is a number.
func pad(s string, columns int, number bool) string {
	if number {
		return runewidth.FillLeft(s, columns)
	}
	return runewidth.FillRight(s, columns)
}

// unknown is shown in place of a number that is not known.
const unknown = "-"

func rateText(rate float64, known bool) string {
	if !known {
		return unknown
	}
	return strconv.FormatFloat(rate, 'f', 1, 64)
}
