package nft

import (
	"strings"
	"testing"

	"kube-vmap/model"
)

// cutComment is the comment of an element that has this one, behind other text.
func cutComment(comment string) string {
	e := Element{Comment: comment}
	return strings.TrimPrefix(string(e.AppendComment([]byte("# "))), "# ")
}

// webPort is a Service port.
var webPort = model.ServicePortName{ServiceName: model.ServiceName{Namespace: "shop", Name: "web"}, Port: "http"}

func TestLongCommentsAreCut(t *testing.T) {
	for name, tt := range map[string]struct{ comment, want string }{
		"none":                            {"", ""},
		"a short one":                     {"shop/web:http", "shop/web:http"},
		"one that just fits":              {strings.Repeat("a", 127), strings.Repeat("a", 127)},
		"one of a byte too many":          {strings.Repeat("a", 128), strings.Repeat("a", 124) + "..."},
		"a very long one":                 {strings.Repeat("a", 1000), strings.Repeat("a", 124) + "..."},
		"one cut between characters":      {strings.Repeat("ä", 64), strings.Repeat("ä", 62) + "..."},
		"one that would end in half of ä": {"a" + strings.Repeat("ä", 64), "a" + strings.Repeat("ä", 61) + "..."},
		"one without the start of any":    {strings.Repeat("\x80", 128), "..."},
		"one that would end in half of 世": {strings.Repeat("世", 43), strings.Repeat("世", 41) + "..."},
	} {
		if got := cutComment(tt.comment); got != tt.want {
			t.Errorf("%s, %q, is cut to %q, want %q", name, tt.comment, got, tt.want)
		}
	}
}
