package config

import (
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kube-proxy/config/v1alpha1"
)

// Flags are those of kube-proxy 1.36, --help and --version apart, and our own.
type Flags struct {
	// proxy holds the defaults until the flags that stand for its fields are
	// parsed.
	proxy v1alpha1.KubeProxyConfiguration

	file, master, manifests, writeConfigTo string
	hostnameOverride                       string
	initOnly, cleanup                      bool
	strictSourceRanges                     bool
	protectTables                          bool
	countConnections, endpointMetrics      bool
	statusSocket                           string
	statusPage                             bool
	endTCPFlows, dropInvalid               bool
	healthzPort, metricsPort               int32 // deprecated

	sections []flagSection
}

// NewFlags returns flags that have their defaults.
func NewFlags() *Flags {
	f := &Flags{healthzPort: healthzPort, metricsPort: metricsPort, protectTables: true, countConnections: true, statusSocket: StatusSocket}
	setDefaults(&f.proxy)
	f.addGeneral(f.section("General"))
	f.addKubernetes(f.section("Kubernetes API"))
	f.addTraffic(f.section("Traffic"))
	f.addPods(f.section("Which traffic comes from pods"))
	f.addServers(f.section("Health and metrics"))
	f.addNode(f.section("This node"))
	addLogging(f.section("Log"), &f.proxy.Logging)
	rest := f.section("Without meaning here, accepted because kube-proxy has them")
	f.addOtherModes(rest)
	f.addMeaningless(rest)
	addMeaninglessLogging(rest, &f.proxy.Logging)
	return f
}

// AddTo adds all flags to a set, which from then on takes `_` for `-` in their
// names.
func (f *Flags) AddTo(fs *pflag.FlagSet) {
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, s := range f.sections {
		s.VisitAll(func(flag *pflag.Flag) { s.annotate(flag.Name, SectionKey, s.title) })
		fs.AddFlagSet(s.FlagSet)
	}
}

// SectionKey is the annotation of a flag with the title of its section in help, for
// manual pages.
const SectionKey = "section"

// Usages is the help for all flags, wrapped at so many columns (0: not at all),
// in sections with titles. Those without meaning here are in the last.
func (f *Flags) Usages(cols int) string {
	var b strings.Builder
	for i, s := range f.sections {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(s.title + ":\n" + s.FlagUsagesWrapped(cols))
	}
	return b.String()
}

func (f *Flags) section(title string) flagSection {
	s := newFlagSection(title)
	f.sections = append(f.sections, s)
	return s
}

// fieldKey is the annotation of a flag with the paths of the fields that it
// sets; which of them may depend on the mode.
const fieldKey = "field"

// flagOf returns the flag that sets a field or an item of it, or nil.
func (f *Flags) flagOf(path string) *pflag.Flag {
	path, _, _ = strings.Cut(path, "[")
	var found *pflag.Flag
	f.visit(func(flag *pflag.Flag) {
		for _, field := range flag.Annotations[fieldKey] {
			if field == path && found == nil {
				found = flag
			}
		}
	})
	return found
}

// visit goes through all flags, in the order of help.
func (f *Flags) visit(do func(*pflag.Flag)) {
	for _, s := range f.sections {
		s.VisitAll(do)
	}
}

// changed tells whether a flag was given.
func (f *Flags) changed(name string) bool {
	given := false
	f.visit(func(flag *pflag.Flag) { given = given || flag.Name == name && flag.Changed })
	return given
}
