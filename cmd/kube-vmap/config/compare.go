package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// rulesetFields are the fields that shape the rule set, as prefixes of their paths.
var rulesetFields = []string{"clusterCIDR", "detectLocal", "hostnameOverride", "iptables.masquerade", "mode", "nftables.masquerade", "nodePortAddresses"}

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
