package kubeproxy

import (
	"strings"
	"testing"

	"kube-vmap/nft/attr"
)

// TestLongStateIsCutAfterAWord has a state whose 128th byte is within a port, for each place.
func TestLongStateIsCutAfterAWord(t *testing.T) {
	const address = "10.96.0.1:443"
	for n := range 40 {
		state := strings.Repeat("x", 80+n) + " does not answer: default/kubernetes:https at " + address + "; more"
		_, comment, _ := strings.Cut(WriteTakeoverState(state).String(), `comment "`)
		comment, _, _ = strings.Cut(comment, `"`)
		words := strings.Fields(comment)
		if last := words[len(words)-1]; len(comment) > attr.MaxComment || last != "..." || !strings.Contains(state, words[len(words)-2]+" ") {
			t.Fatalf("%d bytes: %q", len(comment), comment)
		}
	}
}
