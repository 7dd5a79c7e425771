package simulate

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// numbers decodes attributes that are numbers of 4 bytes into the variables of their kinds.
func numbers(d *attr.Decoder, data []byte, into map[uint16]*uint32) {
	for kind, value := range d.Attributes(data) {
		if n := into[kind]; n != nil {
			*n = d.Uint32(value)
		}
	}
}

func decodeByteorder(d *attr.Decoder, data []byte) any {
	e := &expr.Byteorder{}
	numbers(d, data, map[uint16]*uint32{
		unix.NFTA_BYTEORDER_SREG: &e.SourceRegister, unix.NFTA_BYTEORDER_DREG: &e.DestRegister,
		unix.NFTA_BYTEORDER_LEN: &e.Len, unix.NFTA_BYTEORDER_SIZE: &e.Size,
	})
	return e
}

func decodeTProxy(d *attr.Decoder, data []byte) any {
	const addr, port = 2, 3 // NFTA_TPROXY_REG_*
	e := &TransparentProxy{}
	numbers(d, data, map[uint16]*uint32{addr: &e.Addr, port: &e.Port})
	return e
}

func decodeImmediate(d *attr.Decoder, data []byte) any {
	if v := d.Find(d.Find(data, unix.NFTA_IMMEDIATE_DATA), unix.NFTA_DATA_VERDICT); v != nil {
		return DecodeVerdict(d, v)
	}
	return nil
}

// DecodeVerdict decodes the attributes of a verdict.
func DecodeVerdict(d *attr.Decoder, b []byte) *expr.Verdict {
	v := &expr.Verdict{}
	if code := d.Find(b, unix.NFTA_VERDICT_CODE); code != nil {
		v.Kind = expr.VerdictKind(int32(d.Uint32(code)))
	}
	v.Chain = attr.String(d.Find(b, unix.NFTA_VERDICT_CHAIN))
	return v
}

// limitText returns a limit, whose effect is not known in advance, as nft prints it.
func limitText(d *attr.Decoder, data []byte) string {
	var burst, kind, options uint32
	numbers(d, data, map[uint16]*uint32{
		unix.NFTA_LIMIT_BURST: &burst, unix.NFTA_LIMIT_TYPE: &kind, unix.NFTA_LIMIT_FLAGS: &options,
	})
	var rate, per uint64
	for kind, n := range map[uint16]*uint64{unix.NFTA_LIMIT_RATE: &rate, unix.NFTA_LIMIT_UNIT: &per} {
		if b := d.Find(data, kind); b != nil {
			*n = d.Uint64(b)
		}
	}
	over, unit := "", "packets"
	if kind == unix.NFT_LIMIT_PKT_BYTES {
		unit = "bytes"
	}
	if options&unix.NFT_LIMIT_F_INV != 0 {
		over = "over "
	}
	word, known := map[uint64]string{1: "second", 60: "minute", 3600: "hour", 86400: "day", 604800: "week"}[per]
	if !known {
		word = fmt.Sprint(per)
	}
	return fmt.Sprintf("limit rate %s%d/%s burst %d %s", over, rate, word, burst, unit)
}
