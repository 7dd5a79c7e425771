package simulate

import (
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

func decodeByteorder(d *attr.Decoder, data []byte) any {
	number := func(kind uint16) (n uint32) {
		if b := d.Find(data, kind); b != nil {
			n = d.Uint32(b)
		}
		return n
	}
	return &expr.Byteorder{
		SourceRegister: number(unix.NFTA_BYTEORDER_SREG), DestRegister: number(unix.NFTA_BYTEORDER_DREG),
		Len: number(unix.NFTA_BYTEORDER_LEN), Size: number(unix.NFTA_BYTEORDER_SIZE),
	}
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
func limitText(family uint8, data []byte) string {
	var l expr.Limit
	if expr.Unmarshal(family, data, &l) != nil {
		return "(limit)"
	}
	over, unit := "", "packets"
	if l.Type == expr.LimitTypePktBytes {
		unit = "bytes"
	}
	if l.Over {
		over = "over "
	}
	per, known := map[expr.LimitTime]string{
		expr.LimitTimeSecond: "second", expr.LimitTimeMinute: "minute", expr.LimitTimeHour: "hour",
		expr.LimitTimeDay: "day", expr.LimitTimeWeek: "week",
	}[l.Unit]
	if !known {
		per = fmt.Sprintf("%d s", l.Unit)
	}
	return fmt.Sprintf("limit rate %s%d/%s burst %d %s", over, l.Rate, per, l.Burst, unit)
}
