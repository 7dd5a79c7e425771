package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kube-proxy/config/v1alpha1"
)

// Flags are the flags of kube-proxy 1.37 and 1.36, except --help and --version, and our own.
//
// To add a flag: give [Options] a field (and a default in defaultOptions), unless
// v1alpha1.KubeProxyConfiguration has one; add a line to flag_table.go; check its values in
// validate.go or in validator.options, unless all are valid; run make man.
type Flags struct {
	// proxy holds the defaults until the flags that set its fields are parsed.
	proxy   v1alpha1.KubeProxyConfiguration
	options Options

	file                     string
	hostnameOverride         string
	healthzPort, metricsPort int32 // deprecated

	sections []flagSection
	all      *pflag.FlagSet // of all sections, in the order of help
}

// NewFlags returns flags with their defaults.
func NewFlags() *Flags {
	f := &Flags{
		healthzPort: healthzPort, metricsPort: metricsPort, options: defaultOptions(),
		all: newFlagSection("").FlagSet,
	}
	setDefaults(&f.proxy)
	f.addGeneral(f.section("General"))
	f.addKubernetes(f.section("Kubernetes API"))
	f.addTraffic(f.section("Traffic"))
	f.addPods(f.section("Pod traffic detection"))
	f.addTakeover(f.section("Take-over from kube-proxy"))
	f.addServers(f.section("Health, metrics and status"))
	f.addNode(f.section("Node"))
	addLogging(f.section("Log"), &f.proxy.Logging)
	unused := f.section(unusedTitle)
	f.addOtherModes(unused)
	f.addUnused(unused)
	addUnusedLogging(unused, &f.proxy.Logging)
	for _, s := range f.sections {
		s.VisitAll(func(flag *pflag.Flag) { s.annotate(flag.Name, sectionKey, s.title) })
		f.all.AddFlagSet(s.FlagSet)
	}
	return f
}

const unusedTitle = "Without effect here, accepted because kube-proxy has them"

// AddTo adds all flags to a set, which from then on accepts `_` for `-` in names.
func (f *Flags) AddTo(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.AddFlagSet(f.all)
}

const sectionKey = "section"

func (f *Flags) section(title string) flagSection {
	s := newFlagSection(title)
	f.sections = append(f.sections, s)
	return s
}

// flagOf returns the flag that sets a field or an item of it, or nil.
func (f *Flags) flagOf(path string) *pflag.Flag {
	path, _, _ = strings.Cut(path, "[")
	var found *pflag.Flag
	f.all.VisitAll(func(flag *pflag.Flag) {
		for _, field := range flag.Annotations[fieldKey] {
			if field == path && found == nil {
				found = flag
			}
		}
	})
	return found
}

const helpColumns = 110

// AddToCommand adds all flags to a command, whose help then shows them in sections and
// whose completion knows their values.
func (f *Flags) AddToCommand(cmd *cobra.Command) {
	f.AddTo(cmd.Flags())
	f.all.VisitAll(func(flag *pflag.Flag) {
		if words := flag.Annotations[wordsKey]; len(words) > 0 {
			// The only error is that the flag is missing or has a function already.
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	cmd.DisableFlagsInUseLine = true
	defaultUsage := (&cobra.Command{}).UsageFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		if c != cmd {
			return defaultUsage(c) // a subcommand without these flags
		}
		_, err := fmt.Fprint(c.OutOrStderr(), f.usage(c))
		return err
	})
}

func (f *Flags) usage(c *cobra.Command) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Usage:\n  %s\n", c.UseLine())
	for i, sub := range c.Commands() {
		if i == 0 {
			fmt.Fprintf(&text, "  %s COMMAND\n\nCommands:\n", c.CommandPath())
		}
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&text, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations[sectionKey] == nil && flag.Name != "help" && flag.Name != "version" {
			own.AddFlag(flag)
		}
	})
	if own.HasFlags() {
		fmt.Fprintf(&text, "\nOf this command:\n%s", own.FlagUsagesWrapped(helpColumns))
	}
	for _, s := range f.sections {
		fmt.Fprintf(&text, "\n%s:\n%s", s.title, s.FlagUsagesWrapped(helpColumns))
	}
	return text.String()
}

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

// add defines a flag that sets a variable, whose value is the default. fields are the paths of the
// fields in the file that the flag sets, [extension] for a flag that kube-proxy does not have, and
// empty otherwise. Shells complete the words.
func (s flagSection) add(to any, name, fields, usage string, words ...string) {
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
	s.describe(name, fields, words)
}

func (s flagSection) describe(name, fields string, words []string) {
	switch fields {
	case "":
	case extension:
		s.Lookup(name).Usage += ". Not a flag of kube-proxy"
		s.annotate(name, extension)
	default:
		s.annotate(name, fieldKey, strings.Fields(fields)...)
	}
	if len(words) > 0 {
		s.annotate(name, wordsKey, words...)
	}
}

func (s flagSection) annotate(name, key string, values ...string) {
	if err := s.SetAnnotation(name, key, values); err != nil {
		panic("config: " + err.Error())
	}
}
