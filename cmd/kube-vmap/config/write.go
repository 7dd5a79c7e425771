package config

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

// Write writes the configuration as a file for --config, with all defaults. [Options] and
// disabled servers have no fields in it.
func (c *Config) Write(w io.Writer) error {
	text, err := yaml.Marshal(&c.Proxy)
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// rulesetFields are the fields that shape the rule set, as prefixes of their paths.
var rulesetFields = []string{
	"clusterCIDR", "detectLocal", "hostnameOverride", "iptables.masquerade", "mode",
	"nftables.masquerade", "nodePortAddresses",
}

// Compare returns the fields that shape the rule set and have another value in a
// configuration that [Config.Write] wrote, each as "path: value there".
func (c *Config) Compare(written []byte) ([]string, error) {
	here, err := flattenConfig(&c.Proxy)
	if err != nil {
		return nil, err
	}
	data, err := yaml.YAMLToJSON(written)
	if err != nil {
		return nil, fmt.Errorf("read a configuration: %w", err)
	}
	there, err := flattenJSON(data)
	if err != nil {
		return nil, fmt.Errorf("read a configuration: %w", err)
	}
	var others []string
	for _, path := range slices.Sorted(maps.Keys(there)) {
		shapes := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
		if !reflect.DeepEqual(here[path], there[path]) && slices.ContainsFunc(rulesetFields, shapes) {
			others = append(others, fmt.Sprintf("%s: %v", path, there[path]))
		}
	}
	return others, nil
}

// flatten returns the values of nested fields by their paths: {"a": {"b": 1}} becomes
// {"a.b": 1}. Empty lists become nil, since a file shows both alike.
func flatten(fields map[string]any) map[string]any {
	out := map[string]any{}
	flattenInto(out, "", fields)
	return out
}

func flattenInto(out map[string]any, prefix string, fields map[string]any) {
	for name, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			flattenInto(out, prefix+name+".", inner)
			continue
		}
		if list, ok := value.([]any); ok && len(list) == 0 {
			value = nil
		}
		out[prefix+name] = value
	}
}

func flattenConfig(p *v1alpha1.KubeProxyConfiguration) (map[string]any, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return flattenJSON(data)
}

func flattenJSON(data []byte) (map[string]any, error) {
	var fields map[string]any
	if err := jsonutil.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	return flatten(fields), nil
}
