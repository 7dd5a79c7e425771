package config

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// flagSection defines flags. The default of each is the value of its variable. field is the path
// of the field in the file that the flag sets, [extension] for a flag that kube-proxy does not
// have, and empty otherwise.
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

// add defines a flag that sets a variable, and the field.
func (s flagSection) add(to any, name, field, usage string) {
	switch to := to.(type) {
	case *string:
		s.StringVar(to, name, *to, usage)
	case *bool:
		s.BoolVar(to, name, *to, usage)
	case *int32:
		s.Int32Var(to, name, *to, usage)
	case *float32:
		s.Float32Var(to, name, *to, usage)
	case *time.Duration:
		s.DurationVar(to, name, *to, usage)
	case *metav1.Duration:
		s.DurationVar(&to.Duration, name, to.Duration, usage)
	case *[]string:
		s.StringSliceVar(to, name, *to, usage)
	default:
		s.Var(to.(pflag.Value), name, usage)
	}
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

func (s flagSection) annotate(name, key string, values ...string) {
	if err := s.SetAnnotation(name, key, values); err != nil {
		panic("config: " + err.Error())
	}
}
