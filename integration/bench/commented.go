package main

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
)

// prepareCommented encodes the batch of a first load with a comment on each
// element of an endpoint map too, which the rule set itself does not make: all
// else in one transaction, then those.
func prepareCommented(batch nft.Batch) ([][]byte, error) {
	var rest nft.Batch
	var endpoints []nft.AddElements
	for _, op := range batch {
		if id, list, adds := nft.AddedElements(op); adds && id.Kind == nft.SetEndpoints {
			endpoints = append(endpoints, nft.AddElements{Set: id, Elements: list})
			continue
		}
		rest = append(rest, op)
	}
	e, err := rest.Encode()
	if err != nil {
		return nil, err
	}
	parts := [][]byte{e.Bytes}
	for _, add := range endpoints {
		var w writer
		w.message(unix.NFNL_MSG_BATCH_BEGIN, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil)
		for list := add.Elements; len(list) > 0; {
			n := min(len(list), elementsPerMessage)
			w.elements(add.Set, list[:n])
			list = list[n:]
		}
		w.message(unix.NFNL_MSG_BATCH_END, 0, 0, unix.NFNL_SUBSYS_NFTABLES, nil)
		parts = append(parts, w.bytes)
	}
	return parts, nil
}

// elementsPerMessage keeps a message's list of elements below the 64 KiB that an
// attribute can have, comments of up to 128 bytes included.
const elementsPerMessage = 300

// elements writes a message that adds elements with their comments.
func (w *writer) elements(id nft.SetID, list []nft.Element) {
	w.message(newElements, unix.NLM_F_CREATE, number[id.Family], 0, func() {
		w.set(id)
		w.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
			for i := range list {
				w.nest(unix.NFTA_LIST_ELEM, func() { w.element(&list[i]) })
			}
		})
	})
}

// element writes what an element of an endpoint map holds.
func (w *writer) element(e *nft.Element) {
	key := append(e.Key.Addr.AsSlice(), byte(e.Key.Protocol), 0, 0, 0)
	w.nest(unix.NFTA_SET_ELEM_KEY, func() { w.value(unix.NFTA_DATA_VALUE, padPort(key, e.Key.Port)) })
	w.nest(unix.NFTA_SET_ELEM_DATA, func() { w.value(unix.NFTA_DATA_VALUE, endpointData(e.Value.Endpoint)) })
	w.value(unix.NFTA_SET_ELEM_USERDATA, append([]byte{0, byte(len(e.Comment) + 1)}, e.Comment+"\x00"...))
}

func endpointData(e netip.AddrPort) []byte { return padPort(e.Addr().AsSlice(), e.Port()) }

// padPort appends a port as a field of 4 bytes.
func padPort(b []byte, port uint16) []byte {
	return append(binary.BigEndian.AppendUint16(b, port), 0, 0)
}
