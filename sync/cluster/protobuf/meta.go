package protobuf

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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

// pair returns the first two fields of a message.
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
