// Package jhash has the hash of nft's expression jhash.
package jhash

import (
	"encoding/binary"
	"math/bits"
)

// Mod returns the hash of a key below a limit, as the kernel brings it there (reciprocal_scale,
// include/linux/kernel.h).
func Mod(key []byte, limit, seed uint32) uint32 {
	return uint32(uint64(hash(key, seed)) * uint64(limit) >> 32)
}

// hash is the kernel's hash of bytes (include/linux/jhash.h), Bob Jenkins' lookup3.
func hash(key []byte, seed uint32) uint32 {
	const initial = 0xdeadbeef // JHASH_INITVAL
	a := initial + uint32(len(key)) + seed
	b, c := a, a
	for ; len(key) > 12; key = key[12:] {
		a += binary.NativeEndian.Uint32(key)
		b += binary.NativeEndian.Uint32(key[4:])
		c += binary.NativeEndian.Uint32(key[8:])
		a, b, c = mix(a, b, c)
	}
	if len(key) == 0 {
		return c
	}
	// The rest counts from its low byte on, whatever the machine.
	var last [12]byte
	copy(last[:], key)
	a += binary.LittleEndian.Uint32(last[:])
	b += binary.LittleEndian.Uint32(last[4:])
	c += binary.LittleEndian.Uint32(last[8:])
	return final(a, b, c)
}

func mix(a, b, c uint32) (x, y, z uint32) {
	a = (a - c) ^ bits.RotateLeft32(c, 4)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 6)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 8)
	b += a
	a = (a - c) ^ bits.RotateLeft32(c, 16)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 19)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 4)
	b += a
	return a, b, c
}

func final(a, b, c uint32) uint32 {
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	c = (c ^ b) - bits.RotateLeft32(b, 24)
	return c
}
