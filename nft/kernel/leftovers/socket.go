package leftovers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// readBuffer holds the pieces of a dump, or the errors of a transaction, until
	// they are read.
	readBuffer = 1 << 20
	// writeBuffer is how long a transaction may be, which is one datagram; some
	// hundred thousand chains fit. Nothing is allocated.
	writeBuffer = 64 << 20
	// dumpPiece is how much the kernel may answer at a time.
	dumpPiece = 64 << 10
	// patience is how long a socket may be read from. The kernel answers at once,
	// so it only ends what would otherwise never end.
	patience = 30 * time.Second
)

// open makes a socket to nf_tables.
func open(netNS int) (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netNS, MessageBufferSize: dumpPiece})
	if err != nil {
		return nil, fmt.Errorf("open a netfilter socket: %w", err)
	}
	err = errors.Join(
		conn.SetReadBuffer(readBuffer), conn.SetWriteBuffer(writeBuffer),
		conn.SetReadDeadline(time.Now().Add(patience)),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up a netfilter socket: %w", err), conn.Close())
	}
	return conn, nil
}

// request is a message to nf_tables about a table, or about all if it has no
// name.
func request(kind uint16, flags netlink.HeaderFlags, family uint8, add func(*netlink.AttributeEncoder)) netlink.Message {
	ae := netlink.NewAttributeEncoder()
	ae.ByteOrder = binary.BigEndian
	if add != nil {
		add(ae)
	}
	attributes, err := ae.Encode()
	if err != nil {
		panic("leftovers: " + err.Error()) // a name of more than 64 KiB, which no kernel has told us
	}
	return netlink.Message{
		Header: netlink.Header{
			Type:  unix.NFNL_SUBSYS_NFTABLES<<8 | netlink.HeaderType(kind),
			Flags: netlink.Request | flags,
		},
		Data: append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attributes...),
	}
}

// ask sends a request and has fn read the attributes of each answer.
func ask(conn *netlink.Conn, m netlink.Message, fn func(*netlink.AttributeDecoder) error) error {
	if _, err := conn.Send(m); err != nil {
		return fmt.Errorf("ask nf_tables: %w", err)
	}
	var first error
	for answer, err := range conn.ReceiveIter() {
		if err != nil {
			return fmt.Errorf("ask nf_tables: %w", err)
		}
		if err := decode(answer, fn); first == nil {
			first = err // the rest of the answers must be read all the same
		}
	}
	return first
}

// nfHeaderLen is the length of struct nfgenmsg.
const nfHeaderLen = 4

func decode(m netlink.Message, fn func(*netlink.AttributeDecoder) error) error {
	ad, err := netlink.NewAttributeDecoder(m.Data[min(nfHeaderLen, len(m.Data)):])
	if err != nil {
		return fmt.Errorf("decode an answer of nf_tables: %w", err)
	}
	ad.ByteOrder = binary.BigEndian
	if err := errors.Join(fn(ad), ad.Err()); err != nil {
		return fmt.Errorf("decode an answer of nf_tables: %w", err)
	}
	return nil
}
