package sctp

import (
	"encoding/binary"
	"errors"
)

const cookieSize = 16

var errCookie = errors.New("invalid cookie")

// cookie is the server's state of an association. The client keeps it and returns it,
// which proves that the client exists (RFC 9260, 5.1.3).
type cookie struct {
	tag, tsn         uint32 // the server's
	peerTag, peerTSN uint32 // the client's
}

func (c cookie) encode() []byte {
	b := make([]byte, 0, cookieSize)
	for _, v := range []uint32{c.tag, c.tsn, c.peerTag, c.peerTSN} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

func decodeCookie(b []byte) (cookie, error) {
	if len(b) != cookieSize {
		return cookie{}, errCookie
	}
	return cookie{
		tag:     binary.BigEndian.Uint32(b),
		tsn:     binary.BigEndian.Uint32(b[4:]),
		peerTag: binary.BigEndian.Uint32(b[8:]),
		peerTSN: binary.BigEndian.Uint32(b[12:]),
	}, nil
}
