package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kube-proxy/config/v1alpha1"

	"kube-vmap/sync/source/manifests"
)

// Config returns the configuration of the file that --config names, or of the flags. The
// error has all that is invalid, each with its flag or field.
func (f *Flags) Config() (*Config, error) {
	if f.file == "" {
		return f.finish(&Config{
			Proxy: *f.fromFlags(), modeUnset: !f.all.Changed("proxy-mode"),
			nodePortsUnset: !f.all.Changed("nodeport-addresses") || len(f.proxy.NodePortAddresses) == 0,
		})
	}
	text, err := manifests.ReadFile(f.file, maxSize)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return f.parse(text)
}

// maxSize is the maximum size of a configuration file, as of a ConfigMap.
const maxSize = 1 << 20

func (f *Flags) parse(text []byte) (*Config, error) {
	p, warnings, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.file, err)
	}
	for i, w := range warnings {
		warnings[i] = f.file + ": " + w
	}
	c := &Config{
		Warnings: append(warnings, f.ignored()...), modeUnset: p.Mode == "", nodePortsUnset: len(p.NodePortAddresses) == 0,
	}
	setDefaults(p)
	c.Proxy = *p
	return f.finish(c)
}

// finish applies the flags that override the file, and validates.
func (f *Flags) finish(c *Config) (*Config, error) {
	c.Options, c.File, c.flags = f.options, f.file, f
	errs := f.override(&c.Proxy)
	if errs = append(errs, c.validate()...); len(errs) > 0 {
		return nil, c.named(errs)
	}
	more, err := c.warnings()
	c.Warnings = append(c.Warnings, more...)
	return c, err
}

func (f *Flags) fromFlags() *v1alpha1.KubeProxyConfiguration {
	p := f.proxy.DeepCopy()
	orDefault(&p.Mode, ModeNFTables)
	orDefault(&p.DetectLocalMode, LocalModeClusterCIDR)
	if len(p.NodePortAddresses) == 0 {
		p.NodePortAddresses = []string{primary}
	}
	f.moveToMode(p)
	f.setAddresses(p)
	return p
}

// moveToMode moves the values of flags for several modes to the section of the selected
// mode, as kube-proxy does.
func (f *Flags) moveToMode(p *v1alpha1.KubeProxyConfiguration) {
	if p.Mode != ModeIPTables && p.Mode != ModeIPVS {
		return
	}
	p.IPTables.MasqueradeAll = p.NFTables.MasqueradeAll
	p.IPTables.SyncPeriod = p.NFTables.SyncPeriod
	p.IPTables.MinSyncPeriod = p.NFTables.MinSyncPeriod
	p.NFTables = defaults().NFTables
}

// setAddresses disables the servers without an address, or with port 0.
func (f *Flags) setAddresses(p *v1alpha1.KubeProxyConfiguration) {
	healthz, metrics := p.HealthzBindAddress, p.MetricsBindAddress
	p.HealthzBindAddress, p.MetricsBindAddress = "", ""
	setAddressDefaults(p) // by the family of bindAddress
	if f.all.Changed("healthz-bind-address") {
		p.HealthzBindAddress = withPort(healthz, f.healthzPort)
	}
	if f.all.Changed("metrics-bind-address") {
		p.MetricsBindAddress = withPort(metrics, f.metricsPort)
	}
	if f.healthzPort == 0 {
		p.HealthzBindAddress = ""
	}
	if f.metricsPort == 0 {
		p.MetricsBindAddress = ""
	}
}

func wins(path string) bool {
	return path == "hostnameOverride" || strings.HasPrefix(path, "logging.")
}

func (f *Flags) override(p *v1alpha1.KubeProxyConfiguration) field.ErrorList {
	f.overrideLogging(&p.Logging)
	if f.hostnameOverride == "" {
		return nil
	}
	name := nodeName(f.hostnameOverride)
	if name == "" {
		return field.ErrorList{field.Invalid(field.NewPath("hostnameOverride"), f.hostnameOverride,
			"must not be only white space")}
	}
	p.HostnameOverride = name
	return nil
}

func (f *Flags) overrideLogging(c *logsapi.LoggingConfiguration) {
	if f.file == "" {
		return
	}
	again := newFlagSection("")
	addLogging(again, c)
	addUnusedLogging(again, c)
	f.all.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && again.Lookup(flag.Name) != nil {
			_ = again.Set(flag.Name, flag.Value.String()) // as before
		}
	})
}

// ignored returns a warning that names the flags which the file overrides.
func (f *Flags) ignored() []string {
	var names []string
	f.all.VisitAll(func(flag *pflag.Flag) {
		fields := flag.Annotations[fieldKey]
		if flag.Changed && len(fields) > 0 && !wins(fields[0]) {
			names = append(names, "--"+flag.Name)
		}
	})
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []string{"ignored because of --config: " + strings.Join(names, ", ")}
}

func defaults() *v1alpha1.KubeProxyConfiguration {
	var p v1alpha1.KubeProxyConfiguration
	setDefaults(&p)
	return &p
}

const kind = "KubeProxyConfiguration"

// decode reads a KubeProxyConfiguration from YAML or JSON, without defaults. Unknown and
// duplicate fields are warnings.
func decode(text []byte) (p *v1alpha1.KubeProxyConfiguration, warnings []string, err error) {
	documents := manifests.Documents(text)
	if len(documents) == 0 {
		return nil, nil, errors.New("the file is empty; it must hold a " + kind)
	}
	if len(documents) > 1 {
		warnings = append(warnings, fmt.Sprintf("only the first of %d documents is read", len(documents)))
	}
	data, duplicate, err := documents[0].JSON()
	if err != nil {
		return nil, nil, err
	}
	if err := checkKind(data); err != nil {
		return nil, nil, err
	}
	p, err = decodeObject(data)
	strict, unknown := runtime.AsStrictDecodingError(err)
	if err != nil && !unknown {
		return nil, nil, err
	}
	doubtful := []error{duplicate}
	if unknown {
		doubtful = append(doubtful, strict.Errors()...)
	}
	if text := listErrors(doubtful); text != "" {
		warnings = append(warnings, "unknown or duplicate fields: "+text)
	}
	return p, warnings, nil
}

func checkKind(data []byte) error {
	var fields map[string]any
	if err := jsonutil.Unmarshal(data, &fields); err != nil || fields == nil {
		return errors.New("not a " + kind + ": it has no fields")
	}
	want := v1alpha1.SchemeGroupVersion.String()
	if fields["apiVersion"] != want || fields["kind"] != kind {
		return fmt.Errorf("apiVersion: %s, kind: %s is not supported; it must be apiVersion: %s, kind: %s",
			textOf(fields["apiVersion"]), textOf(fields["kind"]), want, kind)
	}
	return nil
}

func textOf(value any) string {
	if value == nil {
		return "(none)"
	}
	return fmt.Sprint(value)
}

// decodeObject returns the object, also with a strict decoding error.
func decodeObject(data []byte) (*v1alpha1.KubeProxyConfiguration, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	decoder := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme,
		jsonserializer.SerializerOptions{Strict: true})
	var p v1alpha1.KubeProxyConfiguration
	_, _, err := decoder.Decode(data, nil, &p)
	return &p, err
}

func listErrors(errs []error) string {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, strings.Join(strings.Fields(err.Error()), " "))
		}
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), "; ")
}
