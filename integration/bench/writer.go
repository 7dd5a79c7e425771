package main

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
)

// The messages written here, and what families are called in them.
const (
	newElements = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWSETELEM
	getElements = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETSETELEM
)

var number = [...]byte{model.IPv4: unix.NFPROTO_IPV4, model.IPv6: unix.NFPROTO_IPV6}

// writer appends netlink messages. It is here to be short, not to be fast.
type writer struct{ bytes []byte }

// set names a set in a message about its elements.
func (w *writer) set(id nft.SetID) {
	w.value(unix.NFTA_SET_ELEM_LIST_TABLE, append([]byte(nft.TableName), 0))
	w.value(unix.NFTA_SET_ELEM_LIST_SET, append([]byte(id.Name()), 0))
}

// message writes a message of nfnetlink around what fill writes.
func (w *writer) message(kind, flags uint16, family byte, resource uint16, fill func()) {
	at := len(w.bytes)
	w.bytes = append(w.bytes, make([]byte, unix.SizeofNlMsghdr)...)
	w.bytes = append(w.bytes, family, unix.NFNETLINK_V0)
	w.bytes = binary.BigEndian.AppendUint16(w.bytes, resource)
	if fill != nil {
		fill()
	}
	binary.NativeEndian.PutUint32(w.bytes[at:], uint32(len(w.bytes)-at))
	binary.NativeEndian.PutUint16(w.bytes[at+4:], kind)
	binary.NativeEndian.PutUint16(w.bytes[at+6:], unix.NLM_F_REQUEST|flags)
}

// nest writes an attribute around what fill writes.
func (w *writer) nest(kind uint16, fill func()) { w.attribute(kind|unix.NLA_F_NESTED, fill) }

func (w *writer) value(kind uint16, b []byte) {
	w.attribute(kind, func() { w.bytes = append(w.bytes, b...) })
}

func (w *writer) attribute(kind uint16, fill func()) {
	at := len(w.bytes)
	w.bytes = append(w.bytes, 0, 0, 0, 0)
	fill()
	binary.NativeEndian.PutUint16(w.bytes[at:], uint16(len(w.bytes)-at))
	binary.NativeEndian.PutUint16(w.bytes[at+2:], kind)
	for len(w.bytes)%4 != 0 {
		w.bytes = append(w.bytes, 0)
	}
}
