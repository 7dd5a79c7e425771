package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// connectionsOf is the set of the counted connections of a family. Its keys have two
// destinations, and its elements counters, so they are not an [nft.Element].
func connectionsOf(f model.Family) nft.SetID { return nft.SetID{Family: f, Kind: nft.SetConnections} }

func (e *encoder) connections(o operation, f model.Family, list []nft.ConnectionCount) {
	e.lists(o, connectionsOf(f), len(list), func(i int) { e.connection(&list[i], o.whole) })
}

func (e *encoder) connection(c *nft.ConnectionCount, whole bool) {
	element := e.OpenNested(unix.NFTA_LIST_ELEM)
	key := e.OpenNested(unix.NFTA_SET_ELEM_KEY)
	value := e.Open(unix.NFTA_DATA_VALUE) // the fields of the layout
	to := c.KeyEndpoint()
	e.address(c.Destination.Addr)
	e.Bytes = append(e.Bytes, byte(c.Destination.Protocol), 0, 0, 0)
	e.port(c.Destination.Port)
	e.address(to.Addr())
	e.port(to.Port())
	e.Close(value)
	e.Close(key)
	if whole {
		e.counter(c.Connections)
	}
	e.Close(element)
}

// counter writes a counter that starts at so many packets.
func (e *encoder) counter(packets uint64) {
	at := e.OpenNested(unix.NFTA_SET_ELEM_EXPR)
	e.String(unix.NFTA_EXPR_NAME, "counter")
	data := e.OpenNested(unix.NFTA_EXPR_DATA)
	e.Uint64(unix.NFTA_COUNTER_BYTES, 0)
	e.Uint64(unix.NFTA_COUNTER_PACKETS, packets)
	e.Close(data)
	e.Close(at)
}

// DecodeConnections appends the counts in a message of a dump of a family's set. An
// element without a counter, which another program must have added, counts none.
func DecodeConnections(f model.Family, list []nft.ConnectionCount, data []byte) ([]nft.ConnectionCount, error) {
	var d decoder
	for element := range d.list(data) {
		if c, ok := d.connection(f, element); ok {
			list = append(list, c)
		}
	}
	if err := d.Err(); err != nil {
		return list, fmt.Errorf("decode elements of %s: %w", connectionsOf(f).Name(), err)
	}
	return list, nil
}

// connection reads one element, and reports whether it could.
func (d *decoder) connection(f model.Family, b []byte) (c nft.ConnectionCount, ok bool) {
	c.Destination.Family = f
	keys := 0
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			for _, value := range d.Attributes(value) {
				d.connectionKey(&c, value)
				keys++
			}
		case unix.NFTA_SET_ELEM_EXPR:
			c.Connections = d.counter(value, c.Connections)
		}
	}
	return c, d.Err() == nil && keys == 1
}

func (d *decoder) connectionKey(c *nft.ConnectionCount, b []byte) {
	n := int(nft.FieldDestination.Len(c.Destination.Family))
	if uint32(len(b)) != connectionsOf(c.Destination.Family).KeyLen() {
		d.Fail(errLayout)
		return
	}
	c.Destination = match(c.Destination.Family, b)
	b = b[n+8:]
	to, _ := netip.AddrFromSlice(b[:n])
	if port := binary.BigEndian.Uint16(b[n:]); port != 0 || !to.IsUnspecified() {
		c.Endpoint = netip.AddrPortFrom(to, port)
	}
}

// DecodeRefusals calls each with the frontends that a message of a dump of a set holds, and their counts.
func DecodeRefusals(id nft.SetID, data []byte, each func(model.Match, uint64)) error {
	var d decoder
	for element := range d.list(data) {
		var packets uint64
		for kind, value := range d.Attributes(element) {
			switch kind {
			case unix.NFTA_SET_ELEM_EXPR:
				packets = d.counter(value, packets)
			case attrElementExpressions:
				for _, value := range d.Attributes(value) {
					packets = d.counter(value, packets)
				}
			}
		}
		if el, ok := d.element(id, element); ok {
			m := nft.Matches(id.Family, []nft.Element{el})[0]
			if m.Addr.IsUnspecified() { // a node port
				m.Addr = netip.Addr{}
			}
			each(m, packets)
		}
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("decode elements of %s: %w", id.Name(), err)
	}
	return nil
}

// attrElementExpressions is NFTA_SET_ELEM_EXPRESSIONS.
const attrElementExpressions = 11

// counter returns how many packets the expression has counted, or the given number if it
// is another expression.
func (d *decoder) counter(b []byte, packets uint64) uint64 {
	var name string
	for kind, value := range d.Attributes(b) {
		switch {
		case kind == unix.NFTA_EXPR_NAME:
			name = attr.String(value)
		case kind == unix.NFTA_EXPR_DATA && name == "counter":
			packets = d.packets(value, packets)
		}
	}
	return packets
}

// match reads an address, a protocol and a port.
func match(f model.Family, b []byte) model.Match {
	n := nft.FieldDestination.Len(f)
	addr, _ := netip.AddrFromSlice(b[:n]) // 4 or 16 bytes
	return model.Match{
		Family: f, Addr: addr, Protocol: model.Protocol(b[n]), Port: binary.BigEndian.Uint16(b[n+4:]),
	}
}

// DecodeClients calls each with the clients that a message of a dump of a set holds, whose key is a
// frontend, after a client or alone.
func DecodeClients(id nft.SetID, data []byte, each func(nft.Client)) error {
	var d decoder
	for element := range d.list(data) {
		var c nft.Client
		for kind, value := range d.Attributes(element) {
			switch kind {
			case unix.NFTA_SET_ELEM_KEY:
				for _, value := range d.Attributes(value) {
					d.client(id, &c, value)
				}
			case unix.NFTA_SET_ELEM_EXPIRATION:
				c.Expires = time.Duration(d.Uint64(value)) * time.Millisecond
			}
		}
		if d.Err() == nil && c.Destination.Addr.IsValid() {
			each(c)
		}
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("decode elements of %s: %w", id.Name(), err)
	}
	return nil
}

// client reads a key of a frontend, with a client or not, as [decoder.key] does, but without a handle for
// each client.
func (d *decoder) client(id nft.SetID, c *nft.Client, b []byte) {
	if uint32(len(b)) != id.KeyLen() {
		d.Fail(errLayout)
		return
	}
	if id.Layout().Key[0] == nft.FieldClient {
		n := nft.FieldClient.Len(id.Family)
		c.Addr, _ = netip.AddrFromSlice(b[:n])
		b = b[n:]
	}
	c.Destination = match(id.Family, b)
}
