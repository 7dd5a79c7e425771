package main

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/wire"
)

// prepareCommented encodes the batch of a first load with a comment on each element of
// the endpoint maps, which the rule set itself does not have: everything else in one
// transaction, then these maps.
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
	e, err := wire.Encode(rest)
	if err != nil {
		return nil, err
	}
	parts := [][]byte{e.Bytes}
	for _, add := range endpoints {
		var e attr.Encoder
		batchMessage(&e, unix.NFNL_MSG_BATCH_BEGIN)
		for list := range slices.Chunk(add.Elements, elementsPerMessage) {
			openSetMessage(&e, unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, add.Set)
			e.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
				for i := range list {
					e.Nested(unix.NFTA_LIST_ELEM, func() { commentedElement(&e, &list[i]) })
				}
			})
			e.CloseMessage()
		}
		batchMessage(&e, unix.NFNL_MSG_BATCH_END)
		parts = append(parts, e.Bytes)
	}
	return parts, nil
}

// elementsPerMessage keeps a message's list of elements below the 64 KiB that an
// attribute can have, comments of up to 128 bytes included.
const elementsPerMessage = 300

// batchMessage begins or ends a batch.
func batchMessage(e *attr.Encoder, kind uint16) {
	e.OpenMessage(kind, unix.NLM_F_REQUEST)
	e.NetfilterHeader(0, unix.NFNL_SUBSYS_NFTABLES)
	e.CloseMessage()
}

// commentedElement writes an element of an endpoint map, and its comment.
func commentedElement(e *attr.Encoder, element *nft.Element) {
	key := append(element.Key.Addr.AsSlice(), byte(element.Key.Protocol), 0, 0, 0)
	to := element.Value.Endpoint
	e.Nested(unix.NFTA_SET_ELEM_KEY, func() { e.Data(unix.NFTA_DATA_VALUE, appendPort(key, element.Key.Port)) })
	e.Nested(unix.NFTA_SET_ELEM_DATA, func() { e.Data(unix.NFTA_DATA_VALUE, appendPort(to.Addr().AsSlice(), to.Port())) })
	comment := element.AppendComment(nil)
	e.Data(unix.NFTA_SET_ELEM_USERDATA, append(append([]byte{0, byte(len(comment) + 1)}, comment...), 0))
}

// appendPort appends a port as a field of 4 bytes.
func appendPort(b []byte, port uint16) []byte {
	return append(binary.BigEndian.AppendUint16(b, port), 0, 0)
}
