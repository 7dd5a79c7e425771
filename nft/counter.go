package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// counterName is the counter of connections whose client could not be remembered,
// because the affinity map is full. It is the only object of the table that is
// neither chain nor set, and every table has it.
const counterName = "affinity-full"

func (o AddCounter) encode(e *encoder) {
	e.message(unix.NFT_MSG_NEWOBJ, unix.NLM_F_CREATE, o.Family)
	e.text(unix.NFTA_OBJ_TABLE, e.table)
	e.text(unix.NFTA_OBJ_NAME, counterName)
	e.number(unix.NFTA_OBJ_TYPE, unix.NFT_OBJECT_COUNTER)
	e.shut(e.nest(unix.NFTA_OBJ_DATA)) // it starts at zero
	e.close()
}

// countFull counts a connection.
func countFull() statement {
	return statement{
		text:        fmt.Sprintf("counter name %q", counterName),
		expressions: []any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: counterName}},
	}
}

// decodeObject notes the counter if it is ours.
func (t *Tables) decodeObject(f model.Family, b []byte) error {
	_, ours, err := counterIn(b)
	if ours {
		t.of(f).Counter = true
	}
	return err
}

// DecodeCounter reads from a message of the kernel how many connections found the
// affinity map full; false if the message is about something else.
func DecodeCounter(data []byte) (packets uint64, ours bool, err error) {
	b, err := body(data)
	if err != nil {
		return 0, false, err
	}
	return counterIn(b)
}

// counterIn reads an object; false if it is not our counter.
func counterIn(b []byte) (packets uint64, ours bool, err error) {
	var table, name string
	var kind uint32
	var d decoder
	d.nested(b, func(attr uint16, value []byte) {
		switch attr {
		case unix.NFTA_OBJ_TABLE:
			table = text(value)
		case unix.NFTA_OBJ_NAME:
			name = text(value)
		case unix.NFTA_OBJ_TYPE:
			d.number(&kind, value)
		case unix.NFTA_OBJ_DATA:
			d.nested(value, func(attr uint16, value []byte) {
				switch {
				case attr != unix.NFTA_COUNTER_PACKETS:
				case len(value) != 8:
					d.err = errors.Join(d.err, errTruncated)
				default:
					packets = binary.BigEndian.Uint64(value)
				}
			})
		}
	})
	ours = d.err == nil && table == TableName && name == counterName && kind == unix.NFT_OBJECT_COUNTER
	return packets, ours, d.err
}
