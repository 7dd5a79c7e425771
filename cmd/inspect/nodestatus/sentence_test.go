package nodestatus

import (
	"strings"
	"testing"
	"time"
)

// TestSentencesNeedTheirArguments has every sentence, with all arguments and with none.
func TestSentencesNeedTheirArguments(t *testing.T) {
	all := Args{
		Hit: 2, All: 3, Named: []string{"named"}, NamedOf: 2, Count: 5, Clients: 6, Number: 7, Seconds: 8, Names: []string{"a name"},
		Since: time.Unix(1e9, 0), Family: "IPv6", Message: TableMissing,
	}
	for _, r := range reasons {
		for i, form := range r.sentences {
			if i%2 == 1 || form == "" {
				continue
			}
			f := Finding{Severity: SeverityProblem, Families: []string{"IPv4"}, Frontends: []string{"at"}, Endpoints: []string{"e"}, Args: all}
			for _, word := range blanks.FindAllString(strings.NewReplacer("[", "", "]", "").Replace(form), -1) {
				if f.Kind, f.All = KindRetried, 3; word == "{avoided}" {
					f.Kind = KindAvoided
				} else if word == "{only}" {
					f.All = 1
				}
				if _, complete := (&sentence{Finding: &f, where: "node"}).fill(word); !complete {
					t.Errorf("%s: there is no %s", r.name, word)
				}
			}
			f.All = 3
			s := sentence{Finding: &f, where: "node"}
			if words, complete := s.fill(form); !complete || strings.ContainsAny(words, "{}[]|") {
				t.Errorf("%s: %q", r.name, words)
			}
		}
	}
	f := Finding{Reason: ReasonSyncFails, Text: "by an older program", Args: Args{Seconds: 7}}
	if got := f.Sentence(); got != f.Text {
		t.Errorf("without the error: %s", got)
	}
	if f.Message = "no memory"; f.Sentence() != "changes have not reached the kernel for 7s: no memory" {
		t.Error(f.Sentence())
	}
}
