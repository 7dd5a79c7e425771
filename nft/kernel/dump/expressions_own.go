package dump

import (
	"fmt"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/simulate"
)

// withoutEffect are expressions that neither decide nor change anything: dup sends a copy of
// the packet.
var withoutEffect = map[string]bool{"last": true, "dup": true}

// ownFormats decode expressions that the library does not decode, or not fully. They return nil
// for what the library does.
var ownFormats = map[string]func(d *attr.Decoder, data []byte) any{
	"byteorder": decodeByteorder, "bitwise": decodeArithmetic, "tproxy": decodeTProxy,
}

func decodeByteorder(d *attr.Decoder, data []byte) any {
	var e simulate.Byteorder
	for kind, value := range d.Attributes(data) {
		switch kind {
		case unix.NFTA_BYTEORDER_SREG:
			e.Source = d.Uint32(value)
		case unix.NFTA_BYTEORDER_DREG:
			e.Dest = d.Uint32(value)
		case unix.NFTA_BYTEORDER_LEN:
			e.Len = d.Uint32(value)
		case unix.NFTA_BYTEORDER_SIZE:
			e.Size = d.Uint32(value)
		}
	}
	return e
}

// Attributes of bitwise that golang.org/x/sys lacks.
const (
	bitwiseOp    = 6 // NFTA_BITWISE_OP
	bitwiseData  = 7 // NFTA_BITWISE_DATA
	bitwiseOther = 8 // NFTA_BITWISE_SREG2
)

// decodeArithmetic decodes a bitwise of another operation than that with a mask.
func decodeArithmetic(d *attr.Decoder, data []byte) any {
	var e simulate.Arithmetic
	for kind, value := range d.Attributes(data) {
		switch kind {
		case unix.NFTA_BITWISE_SREG:
			e.Source = d.Uint32(value)
		case unix.NFTA_BITWISE_DREG:
			e.Dest = d.Uint32(value)
		case unix.NFTA_BITWISE_LEN:
			e.Len = d.Uint32(value)
		case bitwiseOp:
			e.Op = simulate.ArithmeticOp(d.Uint32(value))
		case bitwiseOther:
			e.Other = d.Uint32(value)
		case bitwiseData:
			e.Data = d.Find(value, unix.NFTA_DATA_VALUE)
		}
	}
	switch e.Op {
	case simulate.ShiftLeft, simulate.ShiftRight:
		if len(e.Data) != 4 {
			return nil
		}
		e.Shift = d.NativeUint32(e.Data)
		return e
	case simulate.And, simulate.Or, simulate.Xor:
		return e
	}
	return nil
}

func decodeTProxy(d *attr.Decoder, data []byte) any {
	var e simulate.TransparentProxy
	const addr, port = 2, 3 // NFTA_TPROXY_REG_*
	for kind, value := range d.Attributes(data) {
		switch kind {
		case addr:
			e.Addr = d.Uint32(value)
		case port:
			e.Port = d.Uint32(value)
		}
	}
	return e
}

// limitText returns a limit, whose effect is not known in advance, as nft prints it.
func limitText(d *attr.Decoder, data []byte) string {
	var rate, per uint64
	var burst uint32
	over, unit := "", "packets"
	for kind, value := range d.Attributes(data) {
		switch kind {
		case unix.NFTA_LIMIT_RATE:
			rate = d.Uint64(value)
		case unix.NFTA_LIMIT_UNIT:
			per = d.Uint64(value)
		case unix.NFTA_LIMIT_BURST:
			burst = d.Uint32(value)
		case unix.NFTA_LIMIT_TYPE:
			if d.Uint32(value) == unix.NFT_LIMIT_PKT_BYTES {
				unit = "bytes"
			}
		case unix.NFTA_LIMIT_FLAGS:
			if d.Uint32(value)&unix.NFT_LIMIT_F_INV != 0 {
				over = "over "
			}
		}
	}
	word, known := map[uint64]string{1: "second", 60: "minute", 3600: "hour", 86400: "day", 604800: "week"}[per]
	if !known {
		word = fmt.Sprint(per)
	}
	return fmt.Sprintf("limit rate %s%d/%s burst %d %s", over, rate, word, burst, unit)
}
