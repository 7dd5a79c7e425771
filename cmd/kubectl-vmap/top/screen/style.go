package screen

import (
	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/table"
	"charm.land/bubbles/v2/textinput"
	"charm.land/lipgloss/v2"

	"kube-vmap/cmd/inspect/top"
)

// style has the colours. Whatever a colour shows is also shown by a mark or a word, for
// terminals and people without colours.
type style struct {
	plain, strong, quiet, alarm lipgloss.Style
	table                       table.Styles
	help                        help.Styles
	input                       textinput.Styles
}

// newStyle returns colours that are readable on a dark or a light background.
func newStyle(dark bool) style {
	either := lipgloss.LightDark(dark)
	faint := either(lipgloss.Color("242"), lipgloss.Color("246"))
	red := either(lipgloss.Color("124"), lipgloss.Color("210"))
	blue := either(lipgloss.Color("25"), lipgloss.Color("117"))
	plain := lipgloss.NewStyle()
	s := style{
		plain:  plain,
		strong: plain.Bold(true),
		quiet:  plain.Foreground(faint),
		alarm:  plain.Bold(true).Foreground(red),
	}
	cell := plain.PaddingRight(top.Gap)
	s.table = table.Styles{
		Header:   cell.Bold(true).Foreground(blue),
		Cell:     cell,
		Selected: plain.Reverse(true),
	}
	s.help = help.Styles{
		ShortKey: s.strong, ShortDesc: s.quiet, ShortSeparator: s.quiet, Ellipsis: s.quiet,
		FullKey: s.strong, FullDesc: s.quiet, FullSeparator: s.quiet,
	}
	typed := textinput.StyleState{Prompt: s.strong, Text: s.plain}
	s.input = textinput.Styles{Focused: typed, Blurred: typed} // the cursor does not blink
	return s
}
