package man

import (
	"bytes"
	"strings"
)

// page is a page that is being written.
type page struct {
	bytes.Buffer
	begun bool // the last line is a heading, which begins a paragraph
}

// macro writes a request with its arguments.
func (p *page) macro(name string, arguments ...string) {
	p.WriteString("." + name)
	for _, a := range arguments {
		p.WriteString(` "` + text(a) + `"`)
	}
	p.WriteByte('\n')
	p.begun = name == "SH" || name == "SS"
}

// space separates paragraphs.
func (p *page) space() {
	if !p.begun {
		p.macro("PP")
	}
	p.begun = false
}

// line writes escaped text.
func (p *page) line(escaped string) { p.WriteString(escaped + "\n") }

// item writes a term with its meaning, indented below it.
func (p *page) item(escapedTerm, meaning string) {
	p.macro("TP")
	p.line(escapedTerm)
	p.line(text(meaning))
}

// paragraph writes a paragraph; an indented one verbatim.
func (p *page) paragraph(of string) {
	if strings.HasPrefix(of, " ") || strings.HasPrefix(of, "\t") {
		p.verbatim(dedented(of))
		return
	}
	p.space()
	p.line(text(of))
}

// verbatim writes lines without filling.
func (p *page) verbatim(lines string) {
	p.space()
	p.macro("RS", "4")
	p.macro("EX")
	p.line(text(lines))
	p.macro("EE")
	p.macro("RE")
}

// special escapes characters that roff interprets, or prints as typographic ones, which do
// not work in a shell.
var special = strings.NewReplacer(
	`\`, `\(rs`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`, `"`, `\(dq`, "\t", "    ",
)

// text escapes plain text.
func text(plain string) string {
	lines := strings.Split(special.Replace(plain), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func bold(plain string) string   { return `\fB` + text(plain) + `\fR` }
func italic(plain string) string { return `\fI` + text(plain) + `\fR` }

// paragraphs splits a text at empty lines.
func paragraphs(of string) []string {
	var out []string
	for part := range strings.SplitSeq(of, "\n\n") {
		if part = strings.Trim(part, "\n"); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// dedented removes the common indentation.
func dedented(lines string) string {
	all := strings.Split(strings.Trim(lines, "\n"), "\n")
	indent := -1
	for _, l := range all {
		if n := len(l) - len(strings.TrimLeft(l, " \t")); l != "" && (indent < 0 || n < indent) {
			indent = n
		}
	}
	for i, l := range all {
		if l != "" {
			all[i] = l[indent:]
		}
	}
	return strings.Join(all, "\n")
}
