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

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/source/convert"
)

type object struct {
	key      sync.Object
	file     string
	document int
	// value is a *model.Service, *model.EndpointSlice, *sync.SetNode or *serviceCIDR; nil if
	// the object is invalid or not served.
	value   any
	invalid bool
}

type serviceCIDR struct{ ranges []netip.Prefix }

type parsed struct {
	objects  []object
	problems []*Error
	skipped  []string // unsupported kinds, sorted
	// unparsed reports that some text could not be parsed, and may contain an object that
	// seems to be missing.
	unparsed bool
}

type parser struct {
	node    string
	scheme  *runtime.Scheme
	decoder runtime.Decoder
}

func newParser(node string) *parser {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.Node{})
	scheme.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{})
	scheme.AddKnownTypes(networkingv1.SchemeGroupVersion, &networkingv1.ServiceCIDR{})
	return &parser{
		node:   node,
		scheme: scheme,
		decoder: jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme,
			jsonserializer.SerializerOptions{Strict: true}),
	}
}

func (p *parser) parse(file string, text []byte) parsed {
	r := fileParser{parser: p, file: file}
	for i, d := range Documents(text) {
		r.document = i + 1
		r.readDocument(d)
		if r.tooManyErrors() {
			r.parseError(errTooManyErrors)
			break
		}
	}
	slices.Sort(r.skipped)
	r.skipped = slices.Compact(r.skipped)
	return r.parsed
}

type fileParser struct {
	*parser
	parsed
	file        string
	document    int
	parseErrors int // the unparsed part
}

func (r *fileParser) tooManyErrors() bool { return r.parseErrors > maxParseErrors }

func (r *fileParser) readDocument(d Document) {
	data, warning, err := d.JSON()
	if err != nil {
		r.parseError(err)
		return
	}
	if string(bytes.TrimSpace(data)) == "null" {
		return // comments only
	}
	h, err := readHeader(data, schema.GroupVersionKind{})
	if err != nil {
		r.parseError(err)
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

// listOf returns the kind of a list's items, empty for a list of any kind, and reports
// whether the kind is such a list at all.
func (p *parser) listOf(list schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	if list == corev1.SchemeGroupVersion.WithKind("List") {
		return schema.GroupVersionKind{}, true
	}
	kind, ok := strings.CutSuffix(list.Kind, "List")
	item := list.GroupVersion().WithKind(kind)
	return item, ok && p.scheme.Recognizes(item)
}

// readItems reads a list's items, which need no kind if the list has it.
func (r *fileParser) readItems(data []byte, kind schema.GroupVersionKind) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := jsonutil.Unmarshal(data, &list); err != nil {
		r.parseError(err)
		return
	}
	for i, item := range list.Items {
		if r.tooManyErrors() {
			return
		}
		h, err := readHeader(item, kind)
		if err != nil {
			r.parseError(fmt.Errorf("items[%d]: %w", i, err))
			continue
		}
		r.readObject(item, h)
	}
}

func (r *fileParser) readObject(data []byte, h header) {
	if !r.scheme.Recognizes(h.kind) {
		apiVersion, kind := h.kind.ToAPIVersionAndKind()
		r.skipped = append(r.skipped, apiVersion+" "+kind)
		return
	}
	if h.key.Name == "" {
		r.parseError(field.Required(field.NewPath("metadata", "name"), h.kind.Kind+" without a name"))
		return
	}
	obj, err := r.decode(data, h)
	if err != nil {
		r.problem(h.key, err, false)
		r.objects = append(r.objects, object{key: h.key, file: r.file, document: r.document, invalid: true})
		return
	}
	complete(obj, h.key.Namespace)
	value, errs := r.convert(obj)
	for _, err := range errs {
		r.problem(h.key, err, false)
	}
	if why := unserved(obj); why != nil {
		r.problem(h.key, why, true)
	}
	r.objects = append(r.objects, object{
		key: h.key, file: r.file, document: r.document,
		value: value, invalid: value == nil && len(errs) > 0,
	})
}

// decode decodes an API object. Unknown and duplicate fields are warnings.
func (r *fileParser) decode(data []byte, h header) (runtime.Object, error) {
	obj, kind, err := r.decoder.Decode(data, &h.kind, nil)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, warning := range strict.Errors() {
			r.problem(h.key, warning, true)
		}
		err = nil
	}
	if err == nil && *kind != h.kind {
		err = errors.New("duplicate kind or apiVersion")
	}
	return obj, err
}

// complete sets the API server's defaults that package convert does not have.
func complete(obj runtime.Object, namespace string) {
	switch o := obj.(type) {
	case *corev1.Service:
		if o.Namespace = namespace; o.Spec.ClusterIP == "" && len(o.Spec.ClusterIPs) > 0 {
			o.Spec.ClusterIP = o.Spec.ClusterIPs[0]
		}
	case *discoveryv1.EndpointSlice:
		o.Namespace = namespace
	}
}

// convert converts an API object to the value of an [object].
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

// unserved returns why an object is not served although its author certainly intended it
// to be; nil for any other. An API server would have set the missing field.
func unserved(obj runtime.Object) *field.Error {
	switch o := obj.(type) {
	case *corev1.Service:
		if o.Spec.ClusterIP == "" && o.Spec.Type != corev1.ServiceTypeExternalName && model.Serves(o.Labels) {
			return field.Required(field.NewPath("spec", "clusterIP"), "no ClusterIP is allocated for a Service of a manifest")
		}
	case *discoveryv1.EndpointSlice:
		_, headless := o.Labels[convert.LabelHeadless]
		if !headless && o.Labels[discoveryv1.LabelServiceName] == "" {
			return field.Required(field.NewPath("metadata", "labels").Key(discoveryv1.LabelServiceName), "must name the Service")
		}
	}
	return nil
}

// untyped turns a nil pointer into a nil interface.
func untyped[T any](value *T, errs field.ErrorList) (any, field.ErrorList) {
	if value == nil {
		return nil, errs
	}
	return value, errs
}

// parseError records an error in text that could be any object.
func (r *fileParser) parseError(err error) {
	r.unparsed = true
	r.parseErrors++
	r.problem(sync.Object{}, err, false)
}

func (r *fileParser) problem(key sync.Object, err error, warning bool) {
	r.problems = append(r.problems, &Error{File: r.file, Document: r.document, Object: key, Warning: warning, Err: err})
}
