package protobuf

import "google.golang.org/protobuf/encoding/protowire"

// A tag is the number of a field and how it is encoded, as in the encoded message.
type tag uint64

// Tags of fields are their numbers, followed by one of these.
const (
	varint = tag(protowire.VarintType)
	bytes  = tag(protowire.BytesType)
)

// A value is that of a field: a number, or the bytes of a string or message, which are a part of
// the message around it.
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
