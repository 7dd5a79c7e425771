package protobuf

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Fields of an EndpointSlice, of an endpoint, and of its conditions.
const (
	sliceMetadata    = 1<<3 | bytes
	sliceEndpoints   = 2<<3 | bytes
	slicePorts       = 3<<3 | bytes
	sliceAddressType = 4<<3 | bytes

	endpointAddresses  = 1<<3 | bytes
	endpointConditions = 2<<3 | bytes
	endpointNodeName   = 6<<3 | bytes
	endpointHints      = 8<<3 | bytes

	conditionReady       = 1<<3 | varint
	conditionServing     = 2<<3 | varint
	conditionTerminating = 3<<3 | varint
)

// Slice decodes an EndpointSlice, which is valid until the next call.
func (d *Decoder) Slice(message []byte) (*discoveryv1.EndpointSlice, error) {
	s := &d.slice
	if cap(s.Endpoints) > maxEndpoints {
		s.Endpoints = nil
	}
	*s = discoveryv1.EndpointSlice{ObjectMeta: emptied(&s.ObjectMeta), Endpoints: s.Endpoints[:0], Ports: s.Ports[:0]}
	return s, fields(message, func(t tag, v value) (err error) {
		switch t {
		case sliceMetadata:
			err = metadata(v.bytes, &s.ObjectMeta)
		case sliceEndpoints:
			err = d.endpoint(v.bytes, addEndpoint(s))
		case slicePorts:
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{})
			err = s.Ports[len(s.Ports)-1].Unmarshal(v.bytes)
		case sliceAddressType:
			s.AddressType = discoveryv1.AddressType(v.bytes)
		}
		return err
	})
}

// addEndpoint adds an endpoint without values, with the list of addresses of the one that
// was there before.
func addEndpoint(s *discoveryv1.EndpointSlice) *discoveryv1.Endpoint {
	n := len(s.Endpoints)
	if n == cap(s.Endpoints) {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{})
	} else {
		s.Endpoints = s.Endpoints[:n+1]
	}
	e := &s.Endpoints[n]
	*e = discoveryv1.Endpoint{Addresses: e.Addresses[:0]}
	return e
}

func (d *Decoder) endpoint(message []byte, e *discoveryv1.Endpoint) error {
	return fields(message, func(t tag, v value) (err error) {
		switch t {
		case endpointAddresses:
			e.Addresses = append(e.Addresses, string(v.bytes))
		case endpointConditions:
			err = conditions(v.bytes, &e.Conditions)
		case endpointNodeName:
			e.NodeName = d.node(v.bytes)
		case endpointHints:
			if e.Hints == nil {
				e.Hints = &discoveryv1.EndpointHints{}
			}
			err = e.Hints.Unmarshal(v.bytes)
		}
		return err
	})
}

// Values of conditions, shared by many endpoints.
var truth = map[bool]*bool{false: new(false), true: new(true)}

func conditions(message []byte, c *discoveryv1.EndpointConditions) error {
	return fields(message, func(t tag, v value) error {
		switch is := truth[v.varint != 0]; t {
		case conditionReady:
			c.Ready = is
		case conditionServing:
			c.Serving = is
		case conditionTerminating:
			c.Terminating = is
		}
		return nil
	})
}

func (d *Decoder) node(name []byte) *string {
	if known, ok := d.nodes[string(name)]; ok {
		return known
	}
	if len(d.nodes) >= maxNodes {
		clear(d.nodes)
	}
	text := string(name)
	d.nodes[text] = &text
	return &text
}

// Fields of metadata.
const (
	metaName        = 1<<3 | bytes
	metaNamespace   = 3<<3 | bytes
	metaUID         = 5<<3 | bytes
	metaVersion     = 6<<3 | bytes
	metaCreated     = 8<<3 | bytes
	metaLabels      = 11<<3 | bytes
	metaAnnotations = 12<<3 | bytes
)

func metadata(message []byte, m *metav1.ObjectMeta) error {
	return fields(message, func(t tag, v value) (err error) {
		switch t {
		case metaName:
			m.Name = string(v.bytes)
		case metaNamespace:
			m.Namespace = string(v.bytes)
		case metaUID:
			m.UID = types.UID(v.bytes)
		case metaVersion:
			m.ResourceVersion = string(v.bytes)
		case metaCreated:
			err = m.CreationTimestamp.Unmarshal(v.bytes)
		case metaLabels:
			err = entry(v.bytes, &m.Labels)
		case metaAnnotations:
			err = entry(v.bytes, &m.Annotations)
		}
		return err
	})
}

// entry decodes a label or an annotation, a key with a value, if it is among [keys].
func entry(message []byte, to *map[string]string) error {
	key, text, err := pair(message)
	if name, wanted := keys[string(key)]; wanted {
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[name] = string(text)
	}
	return err
}

func pair(message []byte) (first, second []byte, err error) {
	err = fields(message, func(t tag, v value) error {
		switch t {
		case 1<<3 | bytes:
			first = v.bytes
		case 2<<3 | bytes:
			second = v.bytes
		}
		return nil
	})
	return first, second, err
}

// emptied returns metadata without values, in the memory of m.
func emptied(m *metav1.ObjectMeta) metav1.ObjectMeta {
	clear(m.Labels)
	clear(m.Annotations)
	return metav1.ObjectMeta{Labels: m.Labels, Annotations: m.Annotations}
}
