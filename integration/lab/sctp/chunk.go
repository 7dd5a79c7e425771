package sctp

import (
	"encoding/binary"
	"fmt"
)

// ChunkType is the type of a chunk (RFC 9260, 3.2).
type ChunkType uint8

// The chunk types that this package uses.
const (
	TypeData       ChunkType = 0
	TypeInit       ChunkType = 1
	TypeInitAck    ChunkType = 2
	TypeSack       ChunkType = 3
	TypeAbort      ChunkType = 6
	TypeCookieEcho ChunkType = 10
	TypeCookieAck  ChunkType = 11
)

const (
	// flagsWhole marks DATA that is not fragmented: both its beginning and its end.
	flagsWhole = 0x03
	// flagReflected marks an ABORT whose verification tag is that of the packet it
	// answers.
	flagReflected = 0x01
	// window is the advertised receiver window in bytes, at least 1500 by the RFC.
	window = 65536

	initSize        = 16
	dataSize        = 12
	parameterCookie = 7
	causeUserAbort  = 12
)

// Init is the value of an INIT or INIT ACK chunk (RFC 9260, 3.3.2 and 3.3.3).
type Init struct {
	Tag    uint32 // expected by the sender in every packet to it; not 0
	TSN    uint32 // number of the sender's first DATA chunk
	Cookie []byte // the state cookie; INIT ACK only
}

// Chunk returns the value as a chunk of type t: INIT or INIT ACK.
func (i Init) Chunk(t ChunkType) Chunk {
	b := make([]byte, 0, initSize+chunkHeaderSize+len(i.Cookie))
	b = binary.BigEndian.AppendUint32(b, i.Tag)
	b = binary.BigEndian.AppendUint32(b, window)
	b = binary.BigEndian.AppendUint16(b, 1) // streams out
	b = binary.BigEndian.AppendUint16(b, 1) // streams in
	b = binary.BigEndian.AppendUint32(b, i.TSN)
	if len(i.Cookie) > 0 {
		b = binary.BigEndian.AppendUint16(b, parameterCookie)
		b = binary.BigEndian.AppendUint16(b, uint16(chunkHeaderSize+len(i.Cookie)))
		b = append(b, i.Cookie...)
	}
	return Chunk{Type: t, Value: b}
}

// DecodeInit decodes the value of an INIT or INIT ACK chunk of this package: the only
// parameter is the cookie.
func DecodeInit(c Chunk) (Init, error) {
	b := c.Value
	if len(b) < initSize {
		return Init{}, fmt.Errorf("decode INIT: %w", errShort)
	}
	i := Init{Tag: binary.BigEndian.Uint32(b), TSN: binary.BigEndian.Uint32(b[12:])}
	if parameter := b[initSize:]; len(parameter) > chunkHeaderSize {
		i.Cookie = parameter[chunkHeaderSize:]
	}
	return i, nil
}

// Data is the value of a DATA chunk with a whole message (RFC 9260, 3.3.1).
type Data struct {
	TSN      uint32 // counts the sender's DATA chunks
	Sequence uint16 // counts the messages of the stream
	Payload  []byte
}

// Chunk returns the value as a chunk.
func (d Data) Chunk() Chunk {
	b := make([]byte, 0, dataSize+len(d.Payload))
	b = binary.BigEndian.AppendUint32(b, d.TSN)
	b = binary.BigEndian.AppendUint16(b, 0) // stream
	b = binary.BigEndian.AppendUint16(b, d.Sequence)
	b = binary.BigEndian.AppendUint32(b, 0) // payload protocol: unspecified
	return Chunk{Type: TypeData, Flags: flagsWhole, Value: append(b, d.Payload...)}
}

// DecodeData decodes the value of a DATA chunk.
func DecodeData(c Chunk) (Data, error) {
	if len(c.Value) < dataSize {
		return Data{}, fmt.Errorf("decode DATA: %w", errShort)
	}
	return Data{
		TSN:      binary.BigEndian.Uint32(c.Value),
		Sequence: binary.BigEndian.Uint16(c.Value[6:]),
		Payload:  c.Value[dataSize:],
	}, nil
}

// sack returns a chunk that acknowledges all DATA up to tsn (RFC 9260, 3.3.4).
func sack(tsn uint32) Chunk {
	b := binary.BigEndian.AppendUint32(nil, tsn)
	b = binary.BigEndian.AppendUint32(b, window)
	b = binary.BigEndian.AppendUint32(b, 0) // no gaps, no duplicates
	return Chunk{Type: TypeSack, Value: b}
}

// userAbort returns a chunk that ends an association (RFC 9260, 3.3.10.12).
func userAbort() Chunk {
	b := binary.BigEndian.AppendUint16(nil, causeUserAbort)
	return Chunk{Type: TypeAbort, Value: binary.BigEndian.AppendUint16(b, chunkHeaderSize)}
}
