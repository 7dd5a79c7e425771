package protobuf

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Fields of metadata, and of an entry of its labels or annotations.
const (
	metaName        = 1<<3 | bytes
	metaNamespace   = 3<<3 | bytes
	metaUID         = 5<<3 | bytes
	metaVersion     = 6<<3 | bytes
	metaCreated     = 8<<3 | bytes
	metaLabels      = 11<<3 | bytes
	metaAnnotations = 12<<3 | bytes

	entryKey   = 1<<3 | bytes
	entryValue = 2<<3 | bytes
)

// metadata decodes the metadata of an object.
func metadata(message []byte, m *metav1.ObjectMeta) error {
	r := reader{rest: message}
	for r.next() {
		var err error
		switch r.tag {
		case metaName:
			m.Name = string(r.bytes)
		case metaNamespace:
			m.Namespace = string(r.bytes)
		case metaUID:
			m.UID = types.UID(r.bytes)
		case metaVersion:
			m.ResourceVersion = string(r.bytes)
		case metaCreated:
			err = m.CreationTimestamp.Unmarshal(r.bytes)
		case metaLabels:
			err = entry(r.bytes, &m.Labels)
		case metaAnnotations:
			err = entry(r.bytes, &m.Annotations)
		}
		if err != nil {
			return err
		}
	}
	return r.err
}

// entry decodes a label or an annotation, if it is among [keys].
func entry(message []byte, to *map[string]string) error {
	var key, value []byte
	r := reader{rest: message}
	for r.next() {
		switch r.tag {
		case entryKey:
			key = r.bytes
		case entryValue:
			value = r.bytes
		}
	}
	if name, wanted := keys[string(key)]; wanted {
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[name] = string(value)
	}
	return r.err
}

// emptied returns metadata without values, in the memory of m.
func emptied(m *metav1.ObjectMeta) metav1.ObjectMeta {
	clear(m.Labels)
	clear(m.Annotations)
	return metav1.ObjectMeta{Labels: m.Labels, Annotations: m.Annotations}
}
