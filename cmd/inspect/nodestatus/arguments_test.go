package nodestatus

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

func TestWrongArgumentsAreNamedWithWhatIsAccepted(t *testing.T) {
	for want, err := range map[string]error{
		"--observe: 99h0m0s is not between 0 and 10s":  CheckObserve(99 * time.Hour),
		"--observe: -1s is not between 0 and 10s":      CheckObserve(-time.Second),
		`--namespace: "TYPO" is not the name`:          CheckNamespace("TYPO"),
		"--namespace: \"aaa":                           CheckNamespace(strings.Repeat("a", 60<<10)),
		"has 61440 characters, and a name at most 253": CheckNames([]string{"web", strings.Repeat("a", 60<<10)}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 250 {
			t.Errorf("%.300v, want %q", err, want)
		}
	}
	if err := cmp.Or(CheckObserve(MaxObserved), CheckNamespace(""), CheckNamespace("shop-1"), CheckNames([]string{"[fd00::1]:80/tcp"})); err != nil {
		t.Error(err)
	}
}
