// Package man writes the manual pages of a command and of its subcommands:
//
//	cobra.Command --> NAME, SYNOPSIS, DESCRIPTION --> one page for each, in roff's
//	flags         --> OPTIONS                         macros man (man(7))
//	Manual        --> FILES, SEE ALSO
//
// They say what --help says, in the order in which it does: cobra's own generator
// puts all flags into one list and a date on each page, so that pages would change
// without a change. Nothing here is part of the program; pages are made when it is
// built, and kept in deploy/man.
package man

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// section is that of programs for whoever runs a machine (man(1)).
const section = "8"

// Manual is what the pages are made of.
type Manual struct {
	Root *cobra.Command
	// Files are what the program reads and writes; on the page of the root.
	Files []File
	// SeeAlso are pages of others, such as nft(8).
	SeeAlso []string
}

// File is an entry of FILES.
type File struct{ Path, Meaning string }

// Pages are all pages by the names of their files. Commands that are hidden, or only
// there because of cobra, have none.
func (m Manual) Pages() map[string][]byte {
	out := map[string][]byte{}
	m.add(out, m.Root)
	return out
}

func (m Manual) add(out map[string][]byte, c *cobra.Command) {
	out[name(c)+"."+section] = m.page(c)
	for _, sub := range subcommands(c) {
		m.add(out, sub)
	}
}

// subcommands are those that have pages, sorted by name.
func subcommands(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool {
		return !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() || sub.Name() == "help"
	})
}

// name is what the page of a command is called: kube-vmap-get for kube-vmap get.
func name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page is the page of a command.
func (m Manual) page(c *cobra.Command) []byte {
	c.InitDefaultHelpFlag() // here, since the synopsis depends on whether there are flags
	var p page
	root := m.Root.Name()
	p.macro("TH", strings.ToUpper(name(c)), section, "", root, root)
	p.line(".nh\n.ad l") // names of flags and fields stay in one piece
	p.macro("SH", "NAME")
	p.line(text(name(c)) + ` \- ` + text(c.Short))
	p.synopsis(c)
	p.description(c)
	p.commands(c)
	p.options(c)
	if c.Example != "" {
		p.macro("SH", "EXAMPLES")
		p.verbatim(dedented(c.Example))
	}
	p.exitStatus(c)
	if c == m.Root && len(m.Files) > 0 {
		p.macro("SH", "FILES")
		for _, f := range m.Files {
			p.item(italic(f.Path), f.Meaning)
		}
	}
	p.seeAlso(c, m.SeeAlso)
	return p.Bytes()
}

func (p *page) synopsis(c *cobra.Command) {
	p.macro("SH", "SYNOPSIS")
	path := c.CommandPath()
	p.line(bold(path) + text(strings.TrimPrefix(c.UseLine(), path)))
	if len(subcommands(c)) > 0 {
		p.macro("br")
		p.line(bold(path) + text(" COMMAND"))
	}
}

// exitCode is how the paragraph of a command's text begins that says what its exit
// codes mean, if they are not the usual ones. It becomes EXIT STATUS.
const exitCode = "The exit code is "

func (p *page) description(c *cobra.Command) {
	p.macro("SH", "DESCRIPTION")
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	for _, paragraph := range paragraphs(long) {
		if !strings.HasPrefix(paragraph, exitCode) {
			p.paragraph(paragraph)
		}
	}
}

func (p *page) exitStatus(c *cobra.Command) {
	p.macro("SH", "EXIT STATUS")
	for _, paragraph := range paragraphs(c.Long) {
		if strings.HasPrefix(paragraph, exitCode) {
			p.paragraph(paragraph)
			return
		}
	}
	p.paragraph(exitCode + "0 if all was done, and 1 if not; a line on standard error then says why.")
}

func (p *page) commands(c *cobra.Command) {
	subs := subcommands(c)
	if len(subs) == 0 {
		return
	}
	p.macro("SH", "COMMANDS")
	for _, sub := range subs {
		p.item(bold(name(sub))+"("+section+")", sub.Short+".")
	}
}

func (p *page) seeAlso(c *cobra.Command, others []string) {
	var pages []string
	if c.HasParent() {
		pages = append(pages, bold(name(c.Parent()))+"("+section+")")
	}
	for _, sub := range subcommands(c) {
		pages = append(pages, bold(name(sub))+"("+section+")")
	}
	for _, other := range others {
		title, rest, _ := strings.Cut(other, "(")
		pages = append(pages, bold(title)+"("+rest)
	}
	p.macro("SH", "SEE ALSO")
	p.line(strings.Join(pages, ",\n"))
}
