package sctp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Protocol is SCTP's number in the IP header.
const Protocol = 132

const (
	headerSize      = 12
	chunkHeaderSize = 4
)

// ErrChecksum is returned for a packet whose CRC32c does not match its content.
var ErrChecksum = errors.New("wrong checksum")

var (
	errShort  = errors.New("shorter than its header")
	errLength = errors.New("chunk length exceeds the packet")
)

// castagnoli is the polynomial of RFC 9260, appendix A.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Packet is an SCTP packet: the common header (RFC 9260, 3.1) and its chunks.
// The checksum is not a field: encoding computes it, decoding checks it.
type Packet struct {
	Source      uint16 // port
	Destination uint16 // port
	// Tag is the verification tag, which the receiver chose when the association was
	// established, or 0 in a packet with an INIT.
	Tag    uint32
	Chunks []Chunk
}

// Chunk is one chunk of a packet (RFC 9260, 3.2).
type Chunk struct {
	Type  ChunkType
	Flags uint8
	Value []byte // without the padding
}

// Encode returns the payload of an IP packet, with checksum.
func (p Packet) Encode() []byte {
	b := make([]byte, headerSize, 256)
	binary.BigEndian.PutUint16(b[0:], p.Source)
	binary.BigEndian.PutUint16(b[2:], p.Destination)
	binary.BigEndian.PutUint32(b[4:], p.Tag)
	for _, c := range p.Chunks {
		b = c.append(b)
	}
	binary.LittleEndian.PutUint32(b[8:], checksum(b))
	return b
}

func (c Chunk) append(b []byte) []byte {
	b = append(b, byte(c.Type), c.Flags)
	b = binary.BigEndian.AppendUint16(b, uint16(chunkHeaderSize+len(c.Value)))
	b = append(b, c.Value...)
	return append(b, make([]byte, padding(len(c.Value)))...)
}

// Decode decodes a packet. The values of its chunks are slices of b. The error wraps
// [ErrChecksum] if the checksum is wrong.
func Decode(b []byte) (Packet, error) {
	if len(b) < headerSize {
		return Packet{}, fmt.Errorf("decode packet of %d bytes: %w", len(b), errShort)
	}
	if binary.LittleEndian.Uint32(b[8:]) != checksum(b) {
		return Packet{}, fmt.Errorf("decode packet: %w", ErrChecksum)
	}
	chunks, err := decodeChunks(b[headerSize:])
	if err != nil {
		return Packet{}, fmt.Errorf("decode packet: %w", err)
	}
	return Packet{
		Source:      binary.BigEndian.Uint16(b[0:]),
		Destination: binary.BigEndian.Uint16(b[2:]),
		Tag:         binary.BigEndian.Uint32(b[4:]),
		Chunks:      chunks,
	}, nil
}

func decodeChunks(b []byte) ([]Chunk, error) {
	var chunks []Chunk
	for len(b) > 0 {
		if len(b) < chunkHeaderSize {
			return nil, errShort
		}
		size := int(binary.BigEndian.Uint16(b[2:]))
		if size < chunkHeaderSize || size > len(b) {
			return nil, errLength
		}
		chunks = append(chunks, Chunk{Type: ChunkType(b[0]), Flags: b[1], Value: b[chunkHeaderSize:size:size]})
		// The last chunk's padding may be missing.
		b = b[min(size+padding(size), len(b)):]
	}
	return chunks, nil
}

// Find returns the packet's first chunk of a type.
func (p Packet) Find(t ChunkType) (Chunk, bool) {
	for _, c := range p.Chunks {
		if c.Type == t {
			return c, true
		}
	}
	return Chunk{}, false
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
