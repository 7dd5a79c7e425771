package man

import (
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-vmap/cmd/kube-vmap/config"
)

// options lists the flags of a command like help: below titles, in the order of their
// definition, and those without a title at the end.
func (p *page) options(c *cobra.Command) {
	flags := c.Flags()
	sorted := flags.SortFlags
	flags.SortFlags = false
	defer func() { flags.SortFlags = sorted }()

	var titles []string
	below := map[string][]*pflag.Flag{}
	add := func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		title := ""
		if s := f.Annotations[config.SectionKey]; len(s) > 0 {
			title = s[0]
		}
		if title != "" && !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
		below[title] = append(below[title], f)
	}
	flags.VisitAll(add)
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) == nil {
			add(f)
		}
	})

	p.macro("SH", "OPTIONS")
	for _, title := range titles {
		p.macro("SS", title)
		p.flags(below[title])
	}
	if len(titles) > 0 {
		p.macro("SS", "Other")
	}
	p.flags(below[""])
}

func (p *page) flags(flags []*pflag.Flag) {
	for _, f := range flags {
		value, usage := pflag.UnquoteUsage(f)
		term := bold("--" + f.Name)
		if f.Shorthand != "" {
			term = bold("-"+f.Shorthand) + ", " + term
		}
		if value != "" {
			term += " " + italic(value)
		}
		if !slices.Contains(none, f.DefValue) {
			usage += " (default " + defaultOf(f) + ")"
		}
		p.item(term, usage)
	}
}

// defaultOf returns a default in the form of help.
func defaultOf(f *pflag.Flag) string {
	if f.Value.Type() == "string" {
		return strconv.Quote(f.DefValue)
	}
	return f.DefValue
}

// none are the zero values, which help does not mention as defaults.
var none = []string{"", "0", "0s", "false", "[]", "<nil>"}
