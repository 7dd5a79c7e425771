package man_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/man"
)

// sample is a command with everything that pages show.
func sample() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{
		Use: "tool [FLAGS]", Short: "A tool", Run: run, DisableFlagsInUseLine: true,
		Long: "It's a tool, with\na \\ and more.\n\nAs in:\n\n  tool -v\n    .dot\n\nThe exit code is 3 on Sundays.",
	}
	root.Flags().StringP("zone", "z", "north", "`place` to be")
	root.Flags().Bool("all", false, "everything")
	root.Flags().Bool("secret", false, "not for you")
	root.Flags().Bool("plain", true, "without a section")
	_ = root.Flags().MarkHidden("secret") // the flag exists
	for flag, title := range map[string]string{"zone": "Places", "all": "Amounts"} {
		_ = root.Flags().SetAnnotation(flag, config.SectionKey, []string{title})
	}
	root.PersistentFlags().Int("size", 0, "how large")
	sub := &cobra.Command{Use: "sub THING", Short: "Do a part", Run: run, Example: "  tool sub 'a'\n  tool sub b | head"}
	root.AddCommand(sub, &cobra.Command{Use: "ghost", Run: run, Hidden: true})
	return root
}

func TestPageHasAllSections(t *testing.T) {
	pages := man.Manual{
		Root: sample(), Files: []man.File{{Path: "/etc/tool.conf", Meaning: "What it reads."}}, SeeAlso: []string{"nft(8)"},
	}.Pages()
	if got := slices.Sorted(maps.Keys(pages)); !slices.Equal(got, []string{"tool-sub.8", "tool.8"}) {
		t.Fatalf("the pages are %v", got)
	}
	for name, want := range map[string]string{"tool.8": toolPage, "tool-sub.8": subPage} {
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), string(pages[name])); diff != "" {
			t.Errorf("%s, -want +got\n%s", name, diff)
		}
	}
}

func TestPagesAreReproducible(t *testing.T) {
	root := sample()
	first := man.Manual{Root: root}.Pages()
	if diff := cmp.Diff(first, man.Manual{Root: root}.Pages()); diff != "" {
		t.Errorf("the second time, -first +second\n%s", diff)
	}
}

const toolPage = `
.TH "TOOL" "8" "" "tool" "tool"
.nh
.ad l
.SH "NAME"
tool \- A tool
.SH "SYNOPSIS"
\fBtool\fR [FLAGS]
.br
\fBtool\fR COMMAND
.SH "DESCRIPTION"
It\(aqs a tool, with
a \(rs and more.
.PP
As in:
.PP
.RS "4"
.EX
tool \-v
  .dot
.EE
.RE
.SH "COMMANDS"
.TP
\fBtool\-sub\fR(8)
Do a part.
.SH "OPTIONS"
.SS "Places"
.TP
\fB\-z\fR, \fB\-\-zone\fR \fIplace\fR
place to be (default \(dqnorth\(dq)
.SS "Amounts"
.TP
\fB\-\-all\fR
everything
.SS "Other"
.TP
\fB\-\-plain\fR
without a section (default true)
.TP
\fB\-\-size\fR \fIint\fR
how large
.TP
\fB\-h\fR, \fB\-\-help\fR
help for tool
.SH "EXIT STATUS"
The exit code is 3 on Sundays.
.SH "FILES"
.TP
\fI/etc/tool.conf\fR
What it reads.
.SH "SEE ALSO"
\fBtool\-sub\fR(8),
\fBnft\fR(8)
`

const subPage = `
.TH "TOOL\-SUB" "8" "" "tool" "tool"
.nh
.ad l
.SH "NAME"
tool\-sub \- Do a part
.SH "SYNOPSIS"
\fBtool sub\fR THING [flags]
.SH "DESCRIPTION"
Do a part.
.SH "OPTIONS"
.TP
\fB\-\-size\fR \fIint\fR
how large
.TP
\fB\-h\fR, \fB\-\-help\fR
help for sub
.SH "EXAMPLES"
.RS "4"
.EX
tool sub \(aqa\(aq
tool sub b | head
.EE
.RE
.SH "EXIT STATUS"
The exit code is 0 on success, and 1 after an error, with the reason on standard error.
.SH "SEE ALSO"
\fBtool\fR(8),
\fBnft\fR(8)
`
