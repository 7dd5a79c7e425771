package manifests

import (
	"bytes"
	"cmp"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/sync"
)

// header is the kind and name of an object. It can be read even if other parts of the
// object are invalid.
type header struct {
	kind schema.GroupVersionKind
	key  sync.Object // its namespace is empty for Nodes and ServiceCIDRs
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
	key := sync.Object{Kind: h.Kind, Name: h.Metadata.Name}
	if isNamespaced(h.Kind) {
		key.Namespace = cmp.Or(h.Metadata.Namespace, metav1.NamespaceDefault)
	}
	return header{version.WithKind(h.Kind), key}, nil
}

func isNamespaced(kind string) bool {
	return kind == "Service" || kind == "EndpointSlice"
}
