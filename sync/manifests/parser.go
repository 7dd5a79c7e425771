package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/sync"
	"kube-vmap/sync/convert"
)

// object is what a document says of one object.
type object struct {
	key      objectKey
	file     string
	document int
	// value is a *model.Service, *model.EndpointSlice, *model.Node or *serviceCIDR; nil
	// if the object is refused or none of the proxy's business.
	value   any
	refused bool
}

// serviceCIDR is what the proxy reads of a ServiceCIDR.
type serviceCIDR struct{ ranges []netip.Prefix }

// parsed is what the text of one file says.
type parsed struct {
	objects  []object
	problems []*Error
	skipped  []string // kinds that are not read, sorted
	// garbled tells that some object could not be recognised, so that one which
	// seems to be missing may be there.
	garbled bool
}

// parser makes model values of text. It has no memory.
type parser struct {
	node    string
	scheme  *runtime.Scheme
	decoder runtime.Decoder
}

func newParser(node string) *parser {
	scheme := convert.NewScheme()
	return &parser{
		node:   node,
		scheme: scheme,
		decoder: jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme,
			jsonserializer.SerializerOptions{Strict: true}),
	}
}

// parse reads a whole file.
func (p *parser) parse(file string, text []byte) parsed {
	r := reading{parser: p, file: file}
	for _, d := range splitDocuments(text) {
		r.readDocument(d)
		if r.tooMuch() {
			r.unrecognised(errTooMuch)
			break
		}
	}
	slices.Sort(r.skipped)
	r.skipped = slices.Compact(r.skipped)
	return r.parsed
}

// reading is a file while it is parsed.
type reading struct {
	*parser
	parsed
	file     string
	document int
	// unrecognisable is how much could not be made out, reread how many documents
	// were read a second time.
	unrecognisable, reread int
}

// tooMuch reports whether the rest of the file is not worth looking at.
func (r *reading) tooMuch() bool { return r.unrecognisable > maxUnrecognised }

// mayReread reports whether one more document may be read a second time.
func (r *reading) mayReread() bool {
	r.reread++
	return r.reread <= maxReread
}

func (r *reading) readDocument(d document) {
	r.document = d.number
	data, warning, err := d.toJSON(r.mayReread)
	if err != nil {
		r.unrecognised(err)
		return
	}
	if string(bytes.TrimSpace(data)) == "null" {
		return // nothing but comments
	}
	h, err := readHeader(data, schema.GroupVersionKind{})
	if err != nil {
		r.unrecognised(err)
		return
	}
	if warning != nil {
		r.problem(h.key, warning, true)
	}
	if item, ok := r.listOf(h.kind); ok {
		r.readItems(data, item)
		return
	}
	r.readObject(data, h)
}

// listOf reports whether the kind is a list that may hold what the proxy reads,
// and of which kind its items are; for the list of anything, that is none.
func (p *parser) listOf(list schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	if list == corev1.SchemeGroupVersion.WithKind("List") {
		return schema.GroupVersionKind{}, true
	}
	kind, ok := strings.CutSuffix(list.Kind, "List")
	item := list.GroupVersion().WithKind(kind)
	return item, ok && p.scheme.Recognizes(item)
}

// readItems reads a list's items, which leave out their kind if the list has
// it.
func (r *reading) readItems(data []byte, kind schema.GroupVersionKind) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := jsonutil.Unmarshal(data, &list); err != nil {
		r.unrecognised(err)
		return
	}
	for i, item := range list.Items {
		if r.tooMuch() {
			return
		}
		h, err := readHeader(item, kind)
		if err != nil {
			r.unrecognised(fmt.Errorf("items[%d]: %w", i, err))
			continue
		}
		r.readObject(item, h)
	}
}

func (r *reading) readObject(data []byte, h header) {
	if !r.scheme.Recognizes(h.kind) {
		apiVersion, kind := h.kind.ToAPIVersionAndKind()
		r.skipped = append(r.skipped, apiVersion+" "+kind)
		return
	}
	if h.key.name == "" {
		r.unrecognised(field.Required(field.NewPath("metadata", "name"), h.kind.Kind+" without a name"))
		return
	}
	obj, err := r.decode(data, h)
	if err != nil {
		r.problem(h.key, err, false)
		r.objects = append(r.objects, object{key: h.key, file: r.file, document: r.document, refused: true})
		return
	}
	r.scheme.Default(obj)
	value, errs := r.convert(obj)
	for _, err := range errs {
		r.problem(h.key, err, false)
	}
	if why := unserved(obj); why != nil {
		r.problem(h.key, why, true)
	}
	r.objects = append(r.objects, object{
		key: h.key, file: r.file, document: r.document,
		value: value, refused: value == nil && len(errs) > 0,
	})
}

// decode makes an API object of JSON. Unknown fields, and those that are there
// twice, are warnings.
func (r *reading) decode(data []byte, h header) (runtime.Object, error) {
	obj, kind, err := r.decoder.Decode(data, &h.kind, nil)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, warning := range strict.Errors() {
			r.problem(h.key, warning, true)
		}
		err = nil
	}
	if err == nil && *kind != h.kind {
		err = errors.New("kind or apiVersion is there twice")
	}
	return obj, err
}

// convert makes a model value of an API object; nil as [object] has it.
func (p *parser) convert(obj runtime.Object) (any, field.ErrorList) {
	switch o := obj.(type) {
	case *corev1.Service:
		return untyped(convert.Service(o))
	case *discoveryv1.EndpointSlice:
		return untyped(convert.Slice(o))
	case *corev1.Node:
		if o.Name != p.node {
			return nil, nil
		}
		n, errs := convert.Node(o)
		if n == nil {
			return nil, errs
		}
		return &sync.SetNode{Node: *n, Ineligible: convert.Ineligible(o)}, errs
	case *networkingv1.ServiceCIDR:
		ranges, errs := convert.ServiceCIDR(o)
		if ranges == nil {
			return nil, errs
		}
		return &serviceCIDR{ranges}, errs
	}
	return nil, nil
}

// unserved says why an object that its author surely wants served is not; nil for
// any other. An API server would have filled in what is missing here.
func unserved(obj runtime.Object) *field.Error {
	switch o := obj.(type) {
	case *corev1.Service:
		_, others := o.Labels[convert.LabelServiceProxyName]
		if o.Spec.ClusterIP == "" && o.Spec.Type != corev1.ServiceTypeExternalName && !others {
			return field.Required(field.NewPath("spec", "clusterIP"), "nobody gives an address to a Service of a manifest")
		}
	case *discoveryv1.EndpointSlice:
		_, headless := o.Labels[convert.LabelHeadless]
		switch {
		case headless:
		case o.Labels[discoveryv1.LabelServiceName] == "":
			return field.Required(field.NewPath("metadata", "labels").Key(discoveryv1.LabelServiceName), "names the Service")
		case o.AddressType == discoveryv1.AddressTypeFQDN:
			return field.Invalid(field.NewPath("addressType"), o.AddressType, "no proxy serves domain names")
		}
	}
	return nil
}

// untyped makes a nil pointer a nil interface.
func untyped[T any](value *T, errs field.ErrorList) (any, field.ErrorList) {
	if value == nil {
		return nil, errs
	}
	return value, errs
}

// unrecognised notes an error in something that could be any object.
func (r *reading) unrecognised(err error) {
	r.garbled = true
	r.unrecognisable++
	r.problem(objectKey{}, err, false)
}

func (r *reading) problem(key objectKey, err error, warning bool) {
	r.problems = append(r.problems, &Error{
		File: r.file, Document: r.document, Object: key.String(), Warning: warning, Err: err,
	})
}
