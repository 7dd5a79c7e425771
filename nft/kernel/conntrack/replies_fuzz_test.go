package conntrack

import (
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft/attr"
)

// seeds are entries as the kernel writes them, whole and cut, with a zone, and with
// garbage at each depth.
func seeds() [][]byte {
	var out [][]byte
	for i, e := range sample() {
		whole := entry(e, uint32(i))
		out = append(out, whole, whole[:20+4*i], appendAttribute(whole, ctaZone, []byte{0, uint8(i)}))
	}
	header := out[0][:attr.BodyHeaderLen]
	for _, garbage := range [][]byte{nil, {1}, {4, 0, 1, 0}, {3, 0, 1, 0}, {0, 0, 0, 0}, {255, 255, 1, 0}, {8, 0, 1, 0x80, 10, 0, 0}} {
		tuple := appendAttribute(nil, unix.NLA_F_NESTED|ctaTupleIP, garbage)
		tuple = appendAttribute(tuple, unix.NLA_F_NESTED|ctaTupleProto, garbage)
		for _, value := range [][]byte{garbage, tuple} {
			b := appendAttribute(header, unix.NLA_F_NESTED|ctaTupleOrig, value)
			out = append(out, appendAttribute(b, unix.NLA_F_NESTED|ctaTupleReply, value))
		}
		out = append(out, append(out[1], garbage...))
	}
	return out
}

// FuzzDecode expects any bytes to be read or left, and each entry that was read to have
// all that is needed to judge and to delete it.
func FuzzDecode(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Add(flowMessage(model.TCP, 3, statusSeenReply))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, r, ok := decode(b)
		if !ok {
			return
		}
		key := r.key()
		if !e.Original.IsValid() || !e.Reply.IsValid() || len(key) == 0 || len(key)%4 != 0 || len(key) > len(b) {
			t.Errorf("read %v with key % x", e, key)
		}
		named := tuple{}
		var d attr.Decoder
		for kind, value := range d.Attributes([]byte(key)) {
			if kind == ctaTupleReply {
				named = decodeTuple(value)
			}
		}
		if named.src != e.Reply.Addr() || named.srcPort != e.Reply.Port() {
			t.Errorf("key % x is not the key of %v", key, e)
		}
		if m := encodeDelete(Entry{key: key}); string(m.Data[attr.BodyHeaderLen:]) != key {
			t.Errorf("% x deletes the key % x", m.Data, key)
		}
	})
}
