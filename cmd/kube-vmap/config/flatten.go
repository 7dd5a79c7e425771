package config

import (
	"encoding/json"

	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-proxy/config/v1alpha1"
)

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

// flattenConfig flattens a configuration in the form of a file.
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
