package config

import (
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// flagSection defines flags. The default of each is what its variable holds;
// field is the path of the field that it sets, empty if there is none.
type flagSection struct {
	*pflag.FlagSet
	title string
}

func newFlagSection(title string) flagSection {
	fs := pflag.NewFlagSet(title, pflag.ContinueOnError)
	fs.SortFlags = false // help shows them as they are defined
	return flagSection{FlagSet: fs, title: title}
}

func (s flagSection) text(to *string, name, field, usage string) {
	s.StringVar(to, name, *to, usage)
	s.sets(name, field)
}

func (s flagSection) yes(to *bool, name, field, usage string) {
	s.BoolVar(to, name, *to, usage)
	s.sets(name, field)
}

func (s flagSection) number(to *int32, name, field, usage string) {
	s.Int32Var(to, name, *to, usage)
	s.sets(name, field)
}

func (s flagSection) period(to *metav1.Duration, name, field, usage string) {
	s.DurationVar(&to.Duration, name, to.Duration, usage)
	s.sets(name, field)
}

func (s flagSection) list(to *[]string, name, field, usage string) {
	s.StringSliceVar(to, name, *to, usage)
	s.sets(name, field)
}

func (s flagSection) value(to pflag.Value, name, field, usage string) {
	s.Var(to, name, usage)
	s.sets(name, field)
}

func (s flagSection) sets(name string, fields ...string) {
	if fields[0] != "" {
		s.annotate(name, fieldKey, fields...)
	}
}

// annotate notes something of a flag that is there.
func (s flagSection) annotate(name, key string, values ...string) {
	if err := s.SetAnnotation(name, key, values); err != nil {
		panic("config: " + err.Error())
	}
}

// word is a flag of a type that is a string.
type word[T ~string] struct{ to *T }

func (w word[T]) Set(s string) error { *w.to = T(s); return nil }

func (w word[T]) Type() string { return "string" }

func (w word[T]) String() string {
	if w.to == nil {
		return ""
	}
	return string(*w.to)
}
