package config

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// kind of the object that the file holds.
const kind = "KubeProxyConfiguration"

// decode reads a KubeProxyConfiguration from YAML or JSON, without defaults.
// Fields that it does not know or that are there twice are warnings.
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
		return p, append(warnings, "fields that are unknown or given twice: "+listErrors(strict.Errors())), nil
	}
	if err != nil {
		return nil, nil, blame(fields, err)
	}
	return p, warnings, nil
}

// splitDocuments returns those documents that say something.
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

// readFields returns the fields of a document that says it is what we want.
func readFields(document []byte) (map[string]any, error) {
	data, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := jsonutil.Unmarshal(data, &fields); err != nil {
		return nil, errors.New("not a " + kind + ", but something without fields")
	}
	want := v1alpha1.SchemeGroupVersion.String()
	if fields["apiVersion"] != want || fields["kind"] != kind {
		return nil, fmt.Errorf("apiVersion: %s, kind: %s is not what is read here; it must be apiVersion: %s, kind: %s",
			textOf(fields["apiVersion"]), textOf(fields["kind"]), want, kind)
	}
	return fields, nil
}

// textOf is a value as the file has it, or says that there is none.
func textOf(value any) string {
	if value == nil {
		return "(none)"
	}
	return fmt.Sprint(value)
}

// decodeObject returns the object together with a strict decoding error, or
// nothing with any other.
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

// listErrors is a list of strict errors in one line.
func listErrors(errs []error) string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, strings.Join(strings.Fields(err.Error()), " "))
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), "; ")
}

// blame finds the fields that cannot be decoded. The error of the whole, which
// it returns if it finds none, does not always name them, and is one of many.
func blame(fields map[string]any, whole error) error {
	var errs field.ErrorList
	for path, value := range flatten(fields) {
		if err := decodeAlone(path, value); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(path), value, err.Error()))
		}
	}
	if len(errs) == 0 {
		return whole
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errors.Join(asErrors(errs)...)
}

func asErrors(list field.ErrorList) []error {
	var errs []error
	for _, err := range list {
		errs = append(errs, err)
	}
	return errs
}

// decodeAlone tries an object that has no other field.
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
