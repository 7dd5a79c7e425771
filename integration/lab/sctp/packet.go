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

// ErrChecksum says that a packet's CRC32c does not fit its content.
var ErrChecksum = errors.New("wrong checksum")

var (
	errShort  = errors.New("shorter than its header")
	errLength = errors.New("chunk length does not fit the packet")
)

// castagnoli is the polynomial of RFC 9260, appendix A.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Packet is an SCTP packet: the common header (RFC 9260, 3.1) and its chunks.
// The checksum is none of its fields: encoding computes it, decoding checks it.
type Packet struct {
	Source      uint16 // port
	Destination uint16 // port
	// Tag is the verification tag: what the receiver chose when the association
	// was made, or 0 in a packet with an INIT.
	Tag    uint32
	Chunks []Chunk
}

// Chunk is one chunk of a packet (RFC 9260, 3.2).
type Chunk struct {
	Type  ChunkType
	Flags uint8
	Value []byte // without the padding
}

// Encode is the packet as it goes into an IP packet, with its checksum.
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

// Decode reads a packet. The values of its chunks are parts of b. The error
// wraps [ErrChecksum] if the checksum is wrong.
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

// Find returns the packet's first chunk of a type, and whether there is one.
func (p Packet) Find(t ChunkType) (Chunk, bool) {
	for _, c := range p.Chunks {
		if c.Type == t {
			return c, true
		}
	}
	return Chunk{}, false
}

// checksum is the CRC32c of a packet, its checksum field taken as 0.
func checksum(b []byte) uint32 {
	var zero [4]byte
	sum := crc32.Update(0, castagnoli, b[:8])
	sum = crc32.Update(sum, castagnoli, zero[:])
	return crc32.Update(sum, castagnoli, b[headerSize:])
}

// padding is how many bytes are missing to a multiple of four.
func padding(n int) int { return -n & 3 }
