// Package man writes the manual pages of a command and of its subcommands:
//
//	cobra.Command --> NAME, SYNOPSIS, DESCRIPTION --> one page for each, in roff's
//	flags         --> OPTIONS                         macros man (man(7))
//	Manual        --> FILES, SEE ALSO
//
// They have the texts of --help, in its order. Package cobra/doc would put all flags into
// one list without sections, and has neither EXIT STATUS nor FILES. The program does not
// contain this package; make man writes the pages to deploy/man.
package man

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// section 8 is for system administration commands (man(1)).
const section = "8"

// Manual is the source of the pages.
type Manual struct {
	Root *cobra.Command
	// Files are for the page of the root command.
	Files []File
	// SeeAlso are pages of others, such as nft(8).
	SeeAlso []string
}

// File is an entry of FILES.
type File struct{ Path, Meaning string }

// Pages returns all pages by their file names. Hidden commands and cobra's own have none.
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

// subcommands returns the subcommands with pages, sorted by name.
func subcommands(c *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool {
		return !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() || sub.Name() == "help"
	})
}

// name returns the name of a command's page: kube-vmap-get for kube-vmap get.
func name(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page returns the page of a command.
func (m Manual) page(c *cobra.Command) []byte {
	c.InitDefaultHelpFlag() // before the synopsis, which depends on it
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

// exitCode begins the paragraph of a command's text about unusual exit codes, which becomes
// EXIT STATUS.
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
	p.paragraph(exitCode + "0 on success, and 1 after an error, with the reason on standard error.")
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
