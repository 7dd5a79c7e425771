package protobuf

import (
	stdbytes "bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// magic begins each object, in a list response or in an event of a watch.
var magic = []byte("k8s\x00")

// Fields of runtime.Unknown, which is around each object, and of its type.
const (
	unknownType     = 1<<3 | bytes
	unknownObject   = 2<<3 | bytes
	unknownEncoding = 3<<3 | bytes

	typeVersion = 1<<3 | bytes
	typeKind    = 2<<3 | bytes
)

// Unwrap returns an object's type and its message. It reports false if data is not an object in
// protobuf.
func Unwrap(data []byte) (version, kind string, message []byte, ok bool) {
	data, ok = stdbytes.CutPrefix(data, magic)
	r := reader{rest: data}
	for ok && r.next() {
		switch r.tag {
		case unknownType:
			version, kind, ok = objectType(r.bytes)
		case unknownObject:
			message = r.bytes
		case unknownEncoding:
			ok = len(r.bytes) == 0
		}
	}
	return version, kind, message, ok && r.err == nil
}

func objectType(message []byte) (version, kind string, ok bool) {
	r := reader{rest: message}
	for r.next() {
		switch r.tag {
		case typeVersion:
			version = string(r.bytes)
		case typeKind:
			kind = string(r.bytes)
		}
	}
	return version, kind, r.err == nil
}

// Fields of an event of a watch, and of the runtime.RawExtension around its object.
const (
	eventType   = 1<<3 | bytes
	eventObject = 2<<3 | bytes

	rawObject = 1<<3 | bytes
)

// Event decodes an event of a watch. The event's object is a part of data.
func Event(data []byte, to *metav1.WatchEvent) error {
	r := reader{rest: data}
	for r.next() {
		switch r.tag {
		case eventType:
			to.Type = string(r.bytes)
		case eventObject:
			object := reader{rest: r.bytes}
			for object.next() {
				if object.tag == rawObject {
					to.Object.Raw = object.bytes
				}
			}
			if object.err != nil {
				return object.err
			}
		}
	}
	return r.err
}

// Fields of a list.
const (
	listMetadata = 1<<3 | bytes
	listItems    = 2<<3 | bytes
)

// List decodes a list, and calls item with the message of each item.
func List(message []byte, meta *metav1.ListMeta, item func(message []byte) error) error {
	r := reader{rest: message}
	for r.next() {
		var err error
		switch r.tag {
		case listMetadata:
			err = meta.Unmarshal(r.bytes)
		case listItems:
			err = item(r.bytes)
		}
		if err != nil {
			return err
		}
	}
	return r.err
}
