package preflight

import (
	"strings"
	"testing"
)

func TestLongTextsAreWrapped(t *testing.T) {
	r := Report{Items: []Item{
		{Name: "kernel", Verdict: "fine", Evidence: []string{"6.12"}},
		{
			Name: "iptables-legacy", Verdict: "needs", Evidence: []string{"table ip filter", "table ip nat", "table ip6 filter", "table ip6 nat"},
			Detail: "in use next to nf_tables, which does not list them\nremove them", See: "docs/compatibility.md#calico",
		},
	}}
	const (
		first = "kernel            fine      6.12\n" + "iptables-legacy   needs     "
		rest  = `
                            in use next to nf_tables, which does not list them; remove
                            them
                            docs/compatibility.md#calico
`
	)
	for format, evidence := range map[string]string{
		"": "table ip filter + 3 more",
		"wide": `table ip filter; table ip nat; table ip6 filter; table ip6
                            nat`,
	} {
		var b strings.Builder
		if err := r.Print(&b, format); err != nil {
			t.Error(err)
		}
		if want := "NAME              VERDICT   EVIDENCE\n" + first + evidence + rest; b.String() != want {
			t.Errorf("-o %s:\n%s\nwant\n%s", format, &b, want)
		}
	}
}
