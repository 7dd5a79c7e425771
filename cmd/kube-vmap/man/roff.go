package man

import (
	"bytes"
	"strings"
)

// page is a page as far as it is written.
type page struct {
	bytes.Buffer
	begun bool // a heading stands last, which is a paragraph's beginning, too
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

// line writes what is escaped already.
func (p *page) line(escaped string) { p.WriteString(escaped + "\n") }

// item is a term with what it means, indented below it.
func (p *page) item(escapedTerm, meaning string) {
	p.macro("TP")
	p.line(escapedTerm)
	p.line(text(meaning))
}

// paragraph writes prose, filled anew; what is indented stands as it is.
func (p *page) paragraph(of string) {
	if strings.HasPrefix(of, " ") || strings.HasPrefix(of, "\t") {
		p.verbatim(dedented(of))
		return
	}
	p.space()
	p.line(text(of))
}

// verbatim writes lines as they are.
func (p *page) verbatim(lines string) {
	p.space()
	p.macro("RS", "4")
	p.macro("EX")
	p.line(text(lines))
	p.macro("EE")
	p.macro("RE")
}

// special are characters that mean something to roff, or that it would print as
// others, which nobody could copy into a shell.
var special = strings.NewReplacer(
	`\`, `\(rs`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`, `"`, `\(dq`, "\t", "    ",
)

// text is plain text such that roff prints exactly that.
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

// paragraphs are the parts of a text between empty lines.
func paragraphs(of string) []string {
	var out []string
	for part := range strings.SplitSeq(of, "\n\n") {
		if part = strings.Trim(part, "\n"); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// dedented are lines without what all of them are indented by.
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
