package sctp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	headerSize      = 12
	chunkHeaderSize = 4
	dataHeaderSize  = 12
)

// The types of the chunks that this package uses (RFC 9260, 3.2).
const (
	typeData       = 0
	typeInit       = 1
	typeInitAck    = 2
	typeSack       = 3
	typeAbort      = 6
	typeCookieEcho = 10
	typeCookieAck  = 11
)

const (
	// flagsWhole marks DATA that is not fragmented: both its beginning and its end.
	flagsWhole = 0x03
	// flagReflected marks an ABORT whose verification tag is that of the packet it
	// answers.
	flagReflected = 0x01
	// window is the advertised receiver window in bytes, at least 1500 by the RFC.
	window = 65536
	// oneStream is the number of streams, out and in.
	oneStream       = 1<<16 | 1
	parameterCookie = 7<<16 | 8  // with its length
	causeUserAbort  = 12<<16 | 4 // with its length
)

var (
	errChecksum = errors.New("wrong checksum")
	errLength   = errors.New("shorter than its header says")
)

// castagnoli is the polynomial of RFC 9260, appendix A.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// packet is an SCTP packet: the common header (RFC 9260, 3.1) and its chunks. The checksum is
// not a field: encoding computes it, decoding checks it.
type packet struct {
	source, destination uint16 // ports
	// tag is the verification tag, which the receiver chose when the association was
	// established, or 0 in a packet with an INIT.
	tag    uint32
	chunks []chunk
}

// chunk is one chunk of a packet (RFC 9260, 3.2).
type chunk struct {
	kind, flags uint8
	value       []byte // without the padding
}

// words returns 32-bit words in network byte order.
func words(list ...uint32) (b []byte) {
	for _, w := range list {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// word returns a word of the chunk's value; 0 if it is shorter.
func (c chunk) word(n int) uint32 {
	if len(c.value) < 4*n+4 {
		return 0
	}
	return binary.BigEndian.Uint32(c.value[4*n:])
}

// data returns a DATA chunk with a whole message (RFC 9260, 3.3.1). tsn counts the sender's
// chunks, sequence the messages of the stream.
func data(tsn uint32, sequence uint16, payload []byte) chunk {
	return chunk{kind: typeData, flags: flagsWhole, value: append(words(tsn, uint32(sequence), 0), payload...)}
}

// encode returns the payload of an IP packet, with checksum.
func (p packet) encode() []byte {
	b := words(uint32(p.source)<<16|uint32(p.destination), p.tag, 0)
	for _, c := range p.chunks {
		b = append(b, c.kind, c.flags)
		b = binary.BigEndian.AppendUint16(b, uint16(chunkHeaderSize+len(c.value)))
		b = append(b, c.value...)
		b = append(b, make([]byte, padding(len(c.value)))...)
	}
	binary.LittleEndian.PutUint32(b[8:], checksum(b))
	return b
}

// decode decodes a packet. The values of its chunks are slices of b. The error wraps
// errChecksum if the checksum is wrong.
func decode(b []byte) (packet, error) {
	if len(b) < headerSize {
		return packet{}, fmt.Errorf("decode packet of %d bytes: %w", len(b), errLength)
	}
	if binary.LittleEndian.Uint32(b[8:]) != checksum(b) {
		return packet{}, fmt.Errorf("decode packet: %w", errChecksum)
	}
	p := packet{
		source: binary.BigEndian.Uint16(b), destination: binary.BigEndian.Uint16(b[2:]), tag: binary.BigEndian.Uint32(b[4:]),
	}
	for b = b[headerSize:]; len(b) > 0; {
		size := 0
		if len(b) >= chunkHeaderSize {
			size = int(binary.BigEndian.Uint16(b[2:]))
		}
		if size < chunkHeaderSize || size > len(b) {
			return packet{}, fmt.Errorf("decode chunk: %w", errLength)
		}
		p.chunks = append(p.chunks, chunk{b[0], b[1], b[chunkHeaderSize:size:size]})
		b = b[min(size+padding(size), len(b)):] // the last chunk's padding may be missing
	}
	return p, nil
}

// find returns the packet's first chunk of a type.
func (p packet) find(kind uint8) (chunk, bool) {
	for _, c := range p.chunks {
		if c.kind == kind {
			return c, true
		}
	}
	return chunk{}, false
}

// checksum returns the CRC32c of a packet, with 0 in its checksum field.
func checksum(b []byte) uint32 {
	var zero [4]byte
	sum := crc32.Update(0, castagnoli, b[:8])
	sum = crc32.Update(sum, castagnoli, zero[:])
	return crc32.Update(sum, castagnoli, b[headerSize:])
}

// padding returns the number of bytes to the next multiple of four.
func padding(n int) int { return -n & 3 }
