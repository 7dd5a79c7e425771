package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ofRules are the fields that the rule set depends on, by the beginnings of their paths.
var ofRules = []string{"clusterCIDR", "detectLocal", "hostnameOverride", "iptables.masquerade", "mode", "nftables.masquerade", "nodePortAddresses"}

// Others are the fields on which the rule set depends and which another configuration,
// as [Config.Write] writes it, has otherwise; each with its value there, as "path: value".
func (c *Config) Others(text []byte) ([]string, error) {
	var own strings.Builder
	if err := c.Write(&own); err != nil {
		return nil, err
	}
	here, err := fieldsOf([]byte(own.String()))
	if err != nil {
		return nil, err
	}
	there, err := fieldsOf(text)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, path := range slices.Sorted(maps.Keys(there)) {
		matters := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
		if here[path] != there[path] && slices.ContainsFunc(ofRules, matters) {
			others = append(others, path+": "+there[path])
		}
	}
	return others, nil
}

// fieldsOf are the values of a configuration by their paths.
func fieldsOf(text []byte) (map[string]string, error) {
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("read a configuration: %w", err)
	}
	fields := map[string]string{}
	addFields(fields, "", tree)
	return fields, nil
}

func addFields(fields map[string]string, path string, value any) {
	inner, is := value.(map[string]any)
	if !is {
		fields[path] = fmt.Sprintf("%v", value)
		return
	}
	for name, v := range inner {
		addFields(fields, strings.TrimPrefix(path+"."+name, "."), v)
	}
}
