package config

import (
	"encoding/json"

	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-proxy/config/v1alpha1"
)

// leaves are the values in nested fields that are no fields themselves, by
// their paths: {"a": {"b": 1}} has a.b.
func leaves(fields map[string]any) map[string]any {
	out := map[string]any{}
	collectLeaves(out, "", fields)
	return out
}

func collectLeaves(out map[string]any, prefix string, fields map[string]any) {
	for name, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			collectLeaves(out, prefix+name+".", inner)
			continue
		}
		if list, ok := value.([]any); ok && len(list) == 0 {
			value = nil // the two are written alike
		}
		out[prefix+name] = value
	}
}

// leavesOf are the leaves of a configuration as a file has them.
func leavesOf(p *v1alpha1.KubeProxyConfiguration) (map[string]any, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := jsonutil.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	return leaves(fields), nil
}
