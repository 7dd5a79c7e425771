package nft

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// A pick is a number below count that a rule makes for a packet, by a method. Tries of one
// packet differ, if the method is a hash.
type pick struct {
	count  uint32
	method method
	try    uint32
}

// maglevSize is the number of slots of a Service whose endpoints are spread by
// [model.MaglevTable]: a prime number of at most MaxSlots.
const maglevSize = model.MaglevTableSize

// hashSeed is the same on all nodes: they must pick the same endpoint for a client, as
// Maglev requires.
const hashSeed = 0x6b766d70

// text is the expression in nft's words.
func (d pick) text(fam *family) string {
	switch d.method.once() {
	case pickRoundRobin:
		return fmt.Sprintf("numgen inc mod %d", d.count)
	case pickSourceHash:
		return fmt.Sprintf("jhash %s saddr mod %d seed 0x%x", fam.name, d.count, d.seed())
	case pickMaglev:
		return fmt.Sprintf("jhash %s saddr . th sport mod %d seed 0x%x", fam.name, d.count, d.seed())
	case pickRandom, pickSticky:
		return fmt.Sprintf("numgen random mod %d", d.count)
	}
	panic(d.method.unknown())
}

// expression puts the number into a register. It overwrites the registers from source on with
// the hashed data.
func (d pick) expression(fam *family, reg, source uint32) []any {
	switch d.method.once() {
	case pickRoundRobin:
		return []any{&expr.Numgen{Register: reg, Modulus: d.count, Type: unix.NFT_NG_INCREMENTAL}}
	case pickSourceHash:
		return append(FieldSource.load(fam, source, d), d.hash(reg, source, fam.addrLen))
	case pickMaglev:
		sport := &expr.Payload{
			DestRegister: source + fam.addrLen/4, Base: expr.PayloadBaseTransportHeader, Offset: sportAt, Len: portLen,
		}
		return append(FieldSource.load(fam, source, d), sport, d.hash(reg, source, fam.addrLen+4))
	case pickRandom, pickSticky:
		return []any{&expr.Numgen{Register: reg, Modulus: d.count, Type: unix.NFT_NG_RANDOM}}
	}
	panic(d.method.unknown())
}

// unknown is the message for a programmer who forgot a method.
func (m method) unknown() string { return fmt.Sprintf("nft: unknown method %d", m) }

func (d pick) seed() uint32 { return hashSeed + d.try }

// hash hashes the data in the registers from source on.
func (d pick) hash(reg, source, length uint32) *expr.Hash {
	return &expr.Hash{
		SourceRegister: source, DestRegister: reg, Length: length,
		Modulus: d.count, Seed: d.seed(), Type: expr.HashTypeJenkins,
	}
}
