package conntrack

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
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

// FuzzDecode expects of any bytes to be read or left, and of an entry that was
// read to have all that is needed to judge and to delete it.
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
			t.Errorf("key % x is not that of %v", key, e)
		}
		if m := encodeDelete(Entry{key: key}); string(m.Data[attr.BodyHeaderLen:]) != key {
			t.Errorf("% x deletes the key % x", m.Data, key)
		}
	})
}

// FuzzList has the kernel answer to a list with any messages. What is listed was
// asked for; a list that was interrupted is none.
func FuzzList(f *testing.F) {
	var all []byte
	for i, b := range seeds() {
		all = binary.LittleEndian.AppendUint16(append(all, uint8(i%4/3)), uint16(len(b)))
		all = append(all, b...)
		if i%5 == 0 {
			f.Add(all, uint8(i))
			all = nil
		}
	}
	f.Fuzz(func(t *testing.T, answers []byte, asked uint8) {
		q := Query{Family: model.Families[asked%2], Protocol: model.Protocols[asked/2%3]}
		if asked&0x80 > 0 {
			q.Port = 53
		}
		interrupted := false
		c := New(Config{})
		c.dial = func() (*netlink.Conn, error) {
			return nltest.Dial(func(requests []netlink.Message) ([]netlink.Message, error) {
				var out []netlink.Message
				for b := answers; len(b) >= 3; {
					m := requests[0]
					n := min(int(binary.LittleEndian.Uint16(b[1:])), len(b)-3)
					m.Header.Flags, m.Data = netlink.HeaderFlags(b[0])<<4&netlink.DumpInterrupted, b[3:3+n]
					interrupted = interrupted || m.Header.Flags != 0
					out, b = append(out, m), b[3+n:]
				}
				return nltest.Multipart(append(out, requests[0]))
			}), nil
		}
		list, err := c.List(q, func(Entry) bool { return true })
		if interrupted != errors.Is(err, unix.EINTR) {
			t.Errorf("interrupted %t, the error is %v", interrupted, err)
		}
		if err != nil && len(list) > 0 {
			t.Errorf("%d entries with %v", len(list), err)
		}
		for _, e := range list {
			if e.Family() != q.Family || e.Protocol != q.Protocol || e.key == "" {
				t.Errorf("asked for %v, listed %v", q, e)
			}
		}
	})
}
