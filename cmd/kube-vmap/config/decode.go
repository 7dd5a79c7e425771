package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-proxy/config/v1alpha1"

	"kube-vmap/sync/source/manifests"
)

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
