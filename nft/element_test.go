package nft

import (
	"strings"
	"testing"
	"unicode/utf8"

	"kube-vmap/model"
)

// cutComment is the comment of an element that has this one.
func cutComment(comment string) string {
	e := Element{Comment: comment}
	return string(e.AppendComment(nil))
}

// webPort is a Service port.
var webPort = model.ServicePortName{ServiceName: model.ServiceName{Namespace: "shop", Name: "web"}, Port: "http"}

func TestCommentIsTheServicePortName(t *testing.T) {
	for _, name := range []model.ServicePortName{webPort, {ServiceName: webPort.ServiceName}} {
		e := Element{Service: &name}
		if got := string(e.AppendComment([]byte("# "))); got != "# "+name.String() {
			t.Errorf("the comment is %q, want that of %s", got, name)
		}
	}
}

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

func FuzzComment(f *testing.F) {
	f.Add("shop/web:http")
	f.Add(strings.Repeat("世", 50))
	f.Fuzz(func(t *testing.T, comment string) {
		got := cutComment(comment)
		if len(got) > maxCommentLen {
			t.Errorf("%q has %d bytes", got, len(got))
		}
		if utf8.ValidString(comment) && !utf8.ValidString(got) {
			t.Errorf("%q ends in half a character", got)
		}
		if cutComment(got) != got {
			t.Errorf("%q is cut again", got)
		}
		if kept, cut := strings.CutSuffix(got, commentTooLong); got != comment && (!cut || !strings.HasPrefix(comment, kept)) {
			t.Errorf("%q does not say that it is cut from %q", got, comment)
		}
	})
}
