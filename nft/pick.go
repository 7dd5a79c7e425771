package nft

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// pick is a number below count that is made for a packet, by a method.
type pick struct {
	count  uint32
	method method
}

// maglevSize is how many slots a Service has whose endpoints are spread by
// [model.MaglevTable]: the largest prime number there are slots for.
const maglevSize = model.MaglevTableSize

// hashSeed makes the same hashes on every node, which Maglev is about.
const hashSeed = 0x6b766d70

// Text is the expression in nft's words.
func (d pick) text(fam *family) string {
	switch d.method {
	case pickRoundRobin:
		return fmt.Sprintf("numgen inc mod %d", d.count)
	case pickSourceHash:
		return fmt.Sprintf("jhash %s saddr mod %d seed 0x%x", fam.name, d.count, hashSeed)
	case pickMaglev:
		return fmt.Sprintf("jhash %s saddr . th sport mod %d seed 0x%x", fam.name, d.count, hashSeed)
	}
	return fmt.Sprintf("numgen random mod %d", d.count)
}

// expression puts the number into a register. What is hashed lies in the key
// registers until then.
func (d pick) expression(fam *family, reg uint32) []any {
	switch d.method {
	case pickRoundRobin:
		return []any{&expr.Numgen{Register: reg, Modulus: d.count, Type: unix.NFT_NG_INCREMENTAL}}
	case pickSourceHash:
		return []any{FieldSource.load(fam, regKey, d), d.hash(reg, fam.addrLen)}
	case pickMaglev:
		sport := &expr.Payload{
			DestRegister: regKey + fam.addrLen/4, Base: expr.PayloadBaseTransportHeader, Offset: sportAt, Len: portLen,
		}
		return []any{FieldSource.load(fam, regKey, d), sport, d.hash(reg, fam.addrLen+4)}
	}
	return []any{&expr.Numgen{Register: reg, Modulus: d.count, Type: unix.NFT_NG_RANDOM}}
}

func (d pick) hash(reg, length uint32) *expr.Hash {
	return &expr.Hash{
		SourceRegister: regKey, DestRegister: reg, Length: length,
		Modulus: d.count, Seed: hashSeed, Type: expr.HashTypeJenkins,
	}
}
