package config

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"kube-vmap/sync/manifests"
)

// kind is that of the object in the file.
const kind = "KubeProxyConfiguration"

// decode reads a KubeProxyConfiguration from YAML or JSON, without defaults. Unknown and
// duplicate fields are warnings.
func decode(text []byte) (p *v1alpha1.KubeProxyConfiguration, warnings []string, err error) {
	documents, err := splitDocuments(text)
	if err != nil {
		return nil, nil, err
	}
	if len(documents) == 0 {
		return nil, nil, errors.New("the file is empty; it must hold a " + kind)
	}
	if len(documents) > 1 {
		warnings = append(warnings, fmt.Sprintf("only the first of %d documents is read", len(documents)))
	}
	fields, err := readFields(documents[0])
	if err != nil {
		return nil, nil, err
	}
	p, err = decodeObject(documents[0])
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		return p, append(warnings, "unknown or duplicate fields: "+listErrors(strict.Errors())), nil
	}
	if err != nil {
		return nil, nil, fieldErrors(fields, err)
	}
	return p, warnings, nil
}

// splitDocuments returns the documents that are not empty.
func splitDocuments(text []byte) ([][]byte, error) {
	var documents [][]byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		if err := manifests.CheckAliases(document); err != nil {
			return nil, err
		}
		data, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, err
		}
		if string(bytes.TrimSpace(data)) != "null" {
			documents = append(documents, document)
		}
	}
}

// readFields returns the fields of a document of the expected kind.
func readFields(document []byte) (map[string]any, error) {
	data, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := jsonutil.Unmarshal(data, &fields); err != nil {
		return nil, errors.New("not a " + kind + ": it has no fields")
	}
	want := v1alpha1.SchemeGroupVersion.String()
	if fields["apiVersion"] != want || fields["kind"] != kind {
		return nil, fmt.Errorf("apiVersion: %s, kind: %s is not supported; it must be apiVersion: %s, kind: %s",
			textOf(fields["apiVersion"]), textOf(fields["kind"]), want, kind)
	}
	return fields, nil
}

func textOf(value any) string {
	if value == nil {
		return "(none)"
	}
	return fmt.Sprint(value)
}

// decodeObject returns the object, also with a strict decoding error.
func decodeObject(document []byte) (*v1alpha1.KubeProxyConfiguration, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	decoder := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme,
		jsonserializer.SerializerOptions{Yaml: true, Strict: true})
	var p v1alpha1.KubeProxyConfiguration
	_, _, err := decoder.Decode(document, nil, &p)
	return &p, err
}

func listErrors(errs []error) string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, strings.Join(strings.Fields(err.Error()), " "))
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), "; ")
}

// fieldErrors decodes each field alone, and returns the errors of those that fail. The
// error of the whole, which it returns if none fails, may not name its field.
func fieldErrors(fields map[string]any, whole error) error {
	values := flatten(fields)
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(values)) {
		if err := decodeAlone(path, values[path]); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(path), values[path], err.Error()))
		}
	}
	return cmp.Or(errors.Join(errs...), whole)
}

// decodeAlone decodes an object that has no other field.
func decodeAlone(path string, value any) error {
	names := strings.Split(path, ".")
	for _, name := range slices.Backward(names) {
		value = map[string]any{name: value}
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return jsonutil.Unmarshal(data, &v1alpha1.KubeProxyConfiguration{})
}
