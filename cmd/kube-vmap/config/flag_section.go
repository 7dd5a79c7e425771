package config

import (
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// flagSection defines flags. The default of each is the value of its variable. field
// is the path of the field in the file that the flag sets, [extension] for a flag that
// kube-proxy does not have, and empty otherwise.
type flagSection struct {
	*pflag.FlagSet
	title string
}

func newFlagSection(title string) flagSection {
	fs := pflag.NewFlagSet(title, pflag.ContinueOnError)
	fs.SortFlags = false // help shows them as they are defined
	return flagSection{FlagSet: fs, title: title}
}

const (
	// fieldKey annotates a flag with the paths of the fields that it sets; the mode may
	// decide which of them.
	fieldKey = "field"
	// wordsKey annotates a flag with the values that shells complete.
	wordsKey = "words"
	// extension is the field of flags that kube-proxy does not have, and the key of
	// their annotation.
	extension = "extension"
)

func (s flagSection) text(to *string, name, field, usage string) {
	s.StringVar(to, name, *to, usage)
	s.sets(name, field)
}

func (s flagSection) boolean(to *bool, name, field, usage string) {
	s.BoolVar(to, name, *to, usage)
	s.sets(name, field)
}

func (s flagSection) number(to *int32, name, field, usage string) {
	s.Int32Var(to, name, *to, usage)
	s.sets(name, field)
}

func (s flagSection) duration(to *metav1.Duration, name, field, usage string) {
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

// sets annotates a flag with the fields that it sets.
func (s flagSection) sets(name string, fields ...string) {
	switch fields[0] {
	case "":
	case extension:
		s.Lookup(name).Usage += ". Not a flag of kube-proxy"
		s.annotate(name, extension)
	default:
		s.annotate(name, fieldKey, fields...)
	}
}

// completes annotates a flag with the values that shells complete.
func (s flagSection) completes(name string, words ...string) { s.annotate(name, wordsKey, words...) }

// annotate annotates a flag of the section.
func (s flagSection) annotate(name, key string, values ...string) {
	if err := s.SetAnnotation(name, key, values); err != nil {
		panic("config: " + err.Error())
	}
}
