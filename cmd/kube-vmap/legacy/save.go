package legacy

import (
	"fmt"
	"strings"

	"kube-vmap/nft/kernel/kubeproxy"
)

// saved is a table as iptables-save printed it.
type saved struct {
	kubeproxy.Table
	program string // that printed it, without "-save"
	// specs are the rules' texts without "-A" and the chain, in the order of
	// Table.Rules.
	specs []string
}

// parse parses the output of iptables-save for one table.
func parse(name, text string) (saved, error) {
	t := saved{Table: kubeproxy.Table{Name: name, Chains: map[string]bool{}}}
	inside := false
	for line := range logicalLines(text) {
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '*':
			inside = line == "*"+name
		case !inside || line == "COMMIT":
			inside = false
		case line[0] == ':':
			if err := t.addChain(line); err != nil {
				return saved{}, err
			}
		default:
			if err := t.addRule(line); err != nil {
				return saved{}, err
			}
		}
	}
	return t, nil
}

// logicalLines splits text into lines, but not within quotes: a comment may have a line
// feed.
func logicalLines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i < len(text); i++ {
			switch {
			case text[i] == '\\' && quoted:
				i++
			case text[i] == '"' && text[start] != '#':
				quoted = !quoted
			case text[i] == '\n' && !quoted:
				if !yield(text[start:i]) {
					return
				}
				start = i + 1
			}
		}
		if start < len(text) {
			yield(text[start:])
		}
	}
}

// addChain parses ":PREROUTING ACCEPT [0:0]"; user-defined chains have the policy "-".
func (t *saved) addChain(line string) error {
	fields := strings.Fields(line[1:])
	if len(fields) < 2 {
		return fmt.Errorf("not a chain of iptables-save: %q", line)
	}
	t.Chains[fields[0]] = fields[1] != "-"
	return nil
}

// addRule parses "-A PREROUTING -m comment --comment "..." -j KUBE-SERVICES". A jump to a
// chain has no options, so its name is the last word; options of a target follow its name.
// Other words of a rule, such as comments, may be anything.
func (t *saved) addRule(line string) error {
	rest, ok := strings.CutPrefix(line, "-A ")
	if !ok {
		return fmt.Errorf("not a rule of iptables-save: %q", line)
	}
	chain, spec, _ := strings.Cut(rest, " ")
	r := kubeproxy.Rule{Chain: chain}
	if all := words(spec); len(all) >= 2 {
		last := all[len(all)-2:]
		_, isChain := t.Chains[last[1]]
		if isChain && (last[0] == "-j" || last[0] == "-g") {
			r.Target = last[1]
		}
	}
	t.Rules = append(t.Rules, r)
	t.specs = append(t.specs, spec)
	return nil
}

// words splits like iptables-restore: at spaces, but not within double quotes, in which a
// backslash escapes the next byte.
func words(s string) []string {
	var all []string
	var word []byte
	started, quoted := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\' && i+1 < len(s):
			i++
			word = append(word, s[i])
		case c == '"':
			quoted, started = !quoted, true
		case !quoted && (c == ' ' || c == '\t'):
			if started {
				all = append(all, string(word))
			}
			word, started = word[:0], false
		default:
			word, started = append(word, c), true
		}
	}
	if started {
		all = append(all, string(word))
	}
	return all
}

// restore returns the text for "iptables-restore --noflush" that executes the commands.
func (t *saved) restore(commands []string) string {
	return "*" + t.Name + "\n" + strings.Join(commands, "\n") + "\nCOMMIT\n"
}

// deleteRule returns the command that deletes a rule.
func (t *saved) deleteRule(i int) string { return "-D " + t.Rules[i].Chain + " " + t.specs[i] }

// describe returns what is in the table, or what was done to it, with its name.
func (t *saved) describe(what string) string { return t.program + " " + t.Name + ": " + what }
