package dump

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"kube-vmap/nft/simulate"
)

// WriteOthers writes the tables of nf_tables that are not kube-vmap's, with their rules, much as
// nft lists them: enough to find what happens to a packet.
func WriteOthers(w io.Writer) (err error) {
	tables, err := Tables(0)
	if err != nil {
		return err
	}
	r, err := Open(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	rules := map[simulate.Chain][]string{}
	err = r.EachRule(simulate.Chain{}, func(rule Rule) bool {
		comment := simulate.Printable(rule.Comment())
		line := fmt.Sprintf("\t\t%s # handle %d%s\n", rule.Text(), rule.Handle, remarkIf(comment != "", ", "+comment))
		rules[rule.Chain] = append(rules[rule.Chain], line)
		return true
	})
	if err != nil {
		return err
	}
	var text strings.Builder
	for i := range tables {
		t := &tables[i]
		if t.IsOurs() {
			continue
		}
		fmt.Fprintf(&text, "table %s {%s\n", simulate.Printable(t.String()), remarkIf(t.Dormant, " # dormant"))
		for _, c := range t.Chains {
			hook := remarkIf(c.Hook != "", " # hook "+string(c.Hook)) + remarkIf(c.Drop, ", policy drop")
			fmt.Fprintf(&text, "\tchain %s {%s\n%s\t}\n", simulate.Printable(c.Name), hook,
				strings.Join(rules[t.Chain(c.Name)], ""))
		}
		text.WriteString("}\n")
	}
	_, err = io.WriteString(w, text.String())
	return err
}

func remarkIf(is bool, text string) string {
	if is {
		return text
	}
	return ""
}
