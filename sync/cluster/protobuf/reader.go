package protobuf

import "google.golang.org/protobuf/encoding/protowire"

// A tag is the number of a field and how it is encoded, as in the encoded message.
type tag uint64

// Tags of fields are their numbers, followed by one of these.
const (
	varint = tag(protowire.VarintType)
	bytes  = tag(protowire.BytesType)
)

// A reader reads the fields of an encoded message.
type reader struct {
	rest []byte
	err  error

	tag    tag
	bytes  []byte // of a field of strings, bytes or messages; a part of the message
	varint uint64
}

// next reads a field. It returns false at the end of the message, or after an error.
func (r *reader) next() bool {
	if len(r.rest) == 0 || r.err != nil {
		return false
	}
	number, kind, n := protowire.ConsumeTag(r.rest)
	if n < 0 {
		r.err = protowire.ParseError(n)
		return false
	}
	r.rest, r.tag = r.rest[n:], tag(protowire.EncodeTag(number, kind))
	switch kind {
	case protowire.VarintType:
		r.varint, n = protowire.ConsumeVarint(r.rest)
	case protowire.BytesType:
		r.bytes, n = protowire.ConsumeBytes(r.rest)
	default:
		n = protowire.ConsumeFieldValue(number, kind, r.rest)
	}
	if n < 0 {
		r.err = protowire.ParseError(n)
		return false
	}
	r.rest = r.rest[n:]
	return true
}
