package protobuf

import (
	stdbytes "bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
