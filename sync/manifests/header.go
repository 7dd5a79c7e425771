package manifests

import (
	"bytes"
	"cmp"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// objectKey identifies an object.
type objectKey struct {
	kind            string
	namespace, name string // namespace is empty for Nodes and ServiceCIDRs
}

// String returns "Service default/web" or "Node worker-1"; empty without a name.
func (k objectKey) String() string {
	switch {
	case k.name == "":
		return ""
	case k.namespace == "":
		return k.kind + " " + k.name
	}
	return k.kind + " " + k.namespace + "/" + k.name
}

// compare orders keys by kind, namespace and name.
func (k objectKey) compare(o objectKey) int {
	return cmp.Or(
		cmp.Compare(k.kind, o.kind),
		cmp.Compare(k.namespace, o.namespace),
		cmp.Compare(k.name, o.name),
	)
}

// header is the kind and name of an object. It can be read even if other parts of the
// object are invalid.
type header struct {
	kind schema.GroupVersionKind
	key  objectKey
}

// readHeader reads the header of an object in JSON. A list may have its kind.
func readHeader(data []byte, kind schema.GroupVersionKind) (header, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return header{}, errors.New("not an object")
	}
	var h struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	if err := jsonutil.Unmarshal(data, &h); err != nil {
		return header{}, err
	}
	h.Kind = cmp.Or(h.Kind, kind.Kind)
	h.APIVersion = cmp.Or(h.APIVersion, kind.GroupVersion().String())
	switch {
	case h.Kind == "":
		return header{}, field.Required(field.NewPath("kind"), "")
	case h.APIVersion == "":
		return header{}, field.Required(field.NewPath("apiVersion"), "")
	}
	version, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		return header{}, field.Invalid(field.NewPath("apiVersion"), h.APIVersion, err.Error())
	}
	key := objectKey{kind: h.Kind, name: h.Metadata.Name}
	if isNamespaced(h.Kind) {
		key.namespace = cmp.Or(h.Metadata.Namespace, metav1.NamespaceDefault)
	}
	return header{version.WithKind(h.Kind), key}, nil
}

// isNamespaced reports whether objects of the kind have a namespace.
func isNamespaced(kind string) bool {
	return kind == "Service" || kind == "EndpointSlice"
}
