// Package protobuf decodes Services and EndpointSlices from the API's protobuf encoding
// (generated.proto in k8s.io/api), and only the fields that package convert reads.
//
// The generated decoders of k8s.io/api copy everything to new memory, and most of an object is not
// for proxies: managed fields, owners, target references, annotations of tools. Here these are
// skipped, and each object is decoded into the memory of the one before. [Decoder] decodes metadata
// and endpoints, which are most of each object, and leaves the rest to the generated decoders.
//
// # Another field, annotation or label
//
// Fields of the spec and status of a Service and of ports are all decoded. A label or an
// annotation that package convert begins to read must be added to its Keys, a field of
// metadata or endpoints to slice.go: FuzzDecodedObjectsAreConvertedTheSame
// fails otherwise, if converttest.Draw draws it.
package protobuf

import (
	stdbytes "bytes"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-vmap/sync/source/convert"
)

// A Decoder decodes one object after the other into the same memory. Strings are copied
// and may be kept.
type Decoder struct {
	service corev1.Service
	slice   discoveryv1.EndpointSlice
	nodes   map[string]*string // names of nodes, which nearly all endpoints share
}

// NewDecoder returns a decoder.
func NewDecoder() *Decoder { return &Decoder{nodes: map[string]*string{}} }

// Limits of the memory that is kept for the next object: the API allows no more
// endpoints of a slice, and more nodes only mean that some names are copied again.
const (
	maxEndpoints = 1000
	maxNodes     = 1 << 14
)

// Fields of a Service.
const (
	serviceMetadata = 1<<3 | bytes
	serviceSpec     = 2<<3 | bytes
	serviceStatus   = 3<<3 | bytes
)

// Service decodes a Service, which is valid until the next call.
func (d *Decoder) Service(message []byte) (*corev1.Service, error) {
	s := &d.service
	*s = corev1.Service{ObjectMeta: emptied(&s.ObjectMeta)}
	return s, fields(message, func(t tag, v value) (err error) {
		switch t {
		case serviceMetadata:
			err = metadata(v.bytes, &s.ObjectMeta)
		case serviceSpec:
			err = s.Spec.Unmarshal(v.bytes)
		case serviceStatus:
			err = s.Status.Unmarshal(v.bytes)
		}
		return err
	})
}

// A tag is the number of a field and how it is encoded, as in the encoded message.
type tag uint64

// Tags of fields are their numbers, followed by one of these.
const (
	varint = tag(protowire.VarintType)
	bytes  = tag(protowire.BytesType)
)

// A value is a field's: a number, or the bytes of a string or message, which are a part of the
// message around it.
type value struct {
	bytes  []byte
	varint uint64
}

// fields calls each for each field of an encoded message, until it returns an error.
func fields(message []byte, each func(tag, value) error) error {
	for len(message) > 0 {
		var v value
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		switch kind {
		case protowire.VarintType:
			v.varint, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := each(tag(protowire.EncodeTag(number, kind)), v); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// magic begins each object, in a list response or in an event of a watch.
var magic = []byte("k8s\x00")

// Fields of runtime.Unknown, which is around each object.
const (
	unknownType     = 1<<3 | bytes
	unknownObject   = 2<<3 | bytes
	unknownEncoding = 3<<3 | bytes
)

// Unwrap returns an object's type and its message. It reports false if data is not an object in
// protobuf.
func Unwrap(data []byte) (version, kind string, message []byte, ok bool) {
	data, ok = stdbytes.CutPrefix(data, magic)
	if !ok {
		return "", "", nil, false
	}
	err := fields(data, func(t tag, v value) error {
		switch t {
		case unknownType:
			first, second, err := pair(v.bytes)
			version, kind = string(first), string(second)
			return err
		case unknownObject:
			message = v.bytes
		case unknownEncoding:
			ok = len(v.bytes) == 0
		}
		return nil
	})
	return version, kind, message, ok && err == nil
}

// Event decodes an event of a watch: its type, and the runtime.RawExtension around its object, which
// is a part of data.
func Event(data []byte, to *metav1.WatchEvent) error {
	kind, extension, err := pair(data)
	if err != nil {
		return err
	}
	to.Type = string(kind)
	to.Object.Raw, _, err = pair(extension)
	return err
}

// Fields of a list.
const (
	listMetadata = 1<<3 | bytes
	listItems    = 2<<3 | bytes
)

// List decodes a list, and calls item with the message of each item.
func List(message []byte, meta *metav1.ListMeta, item func(message []byte) error) error {
	return fields(message, func(t tag, v value) (err error) {
		switch t {
		case listMetadata:
			err = meta.Unmarshal(v.bytes)
		case listItems:
			err = item(v.bytes)
		}
		return err
	})
}

var keys = func() map[string]string {
	out := map[string]string{
		// Package cluster reads these.
		corev1.EndpointsLastChangeTriggerTime: corev1.EndpointsLastChangeTriggerTime,
		metav1.InitialEventsAnnotationKey:     metav1.InitialEventsAnnotationKey,
	}
	for _, key := range convert.Keys {
		out[key] = key
	}
	return out
}()
