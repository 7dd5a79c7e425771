package protobuf

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// A Decoder decodes one object after the other into the same memory. Strings are copied,
// so that they may be kept.
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
