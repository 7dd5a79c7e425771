package nft

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
)

// ConnectionCount is how many connections to an address and port went to an endpoint.
type ConnectionCount struct {
	// Destination is what clients asked for: as a frontend's match, but with the address
	// of the node where it was a node port.
	Asked model.Match
	// Endpoint is invalid for those of endpoints that are long gone, taken together.
	Endpoint    netip.AddrPort
	Connections uint64
}

// AddConnections puts connections that were counted before into the set of a family, as
// if they had just been made. None of the keys must be there.
type AddConnections struct {
	Family model.Family
	List   []ConnectionCount
}

// DeleteConnections removes connections from the set of a family; only what was asked for
// and the endpoint count.
type DeleteConnections struct {
	Family model.Family
	List   []ConnectionCount
}

func (o AddConnections) String() string    { return "add " + countedText(o.Family, o.List, true) }
func (o DeleteConnections) String() string { return "delete " + countedText(o.Family, o.List, false) }

// countedText is the object of a command.
func countedText(f model.Family, list []ConnectionCount, whole bool) string {
	parts := make([]string, len(list))
	for i, c := range list {
		to := c.endpoint()
		parts[i] = fmt.Sprintf("%s . %s . %d . %s . %d", c.Asked.Addr, c.Asked.Protocol, c.Asked.Port, to.Addr(), to.Port())
		if whole {
			parts[i] += fmt.Sprintf(" counter packets %d bytes 0", c.Connections)
		}
	}
	id := SetID{Family: f, Kind: SetConnections}
	return fmt.Sprintf("element %s %s { %s }", table(f), id.Name(), strings.Join(parts, ", "))
}

// endpoint is the endpoint as the key has it: zeros where it is none in particular.
func (c *ConnectionCount) endpoint() netip.AddrPort {
	switch {
	case c.Endpoint.IsValid():
		return c.Endpoint
	case c.Asked.Family == model.IPv6:
		return netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}

func (o AddConnections) encode(e *encoder) {
	e.counted(added, o.Family, o.List)
}

func (o DeleteConnections) encode(e *encoder) {
	e.counted(deleted, o.Family, o.List)
}

// counted writes as many messages as the list needs.
func (e *encoder) counted(o operation, f model.Family, list []ConnectionCount) {
	for len(list) > 0 {
		e.message(o.kind, o.flags, f)
		e.text(unix.NFTA_SET_ELEM_LIST_TABLE, e.table)
		e.text(unix.NFTA_SET_ELEM_LIST_SET, SetID{Family: f, Kind: SetConnections}.Name())
		at := e.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for len(list) > 0 && len(e.out.Bytes)-at < maxList {
			e.oneCounted(&list[0], o.whole)
			list = list[1:]
		}
		e.shut(at)
		e.close()
	}
}

func (e *encoder) oneCounted(c *ConnectionCount, whole bool) {
	element := e.nest(unix.NFTA_LIST_ELEM)
	key := e.nest(unix.NFTA_SET_ELEM_KEY)
	value := e.open(unix.NFTA_DATA_VALUE)
	to := c.endpoint()
	e.address(c.Asked.Addr)
	e.out.Bytes = append(e.out.Bytes, byte(c.Asked.Protocol), 0, 0, 0)
	e.port(c.Asked.Port)
	e.address(to.Addr())
	e.port(to.Port())
	e.shut(value)
	e.shut(key)
	if whole {
		e.counter(c.Connections)
	}
	e.shut(element)
}

// counter writes a counter that begins with so many packets.
func (e *encoder) counter(packets uint64) {
	at := e.nest(unix.NFTA_SET_ELEM_EXPR)
	e.text(unix.NFTA_EXPR_NAME, "counter")
	data := e.nest(unix.NFTA_EXPR_DATA)
	e.bytes(unix.NFTA_COUNTER_BYTES, make([]byte, 8))
	e.bytes(unix.NFTA_COUNTER_PACKETS, binary.BigEndian.AppendUint64(nil, packets))
	e.shut(data)
	e.shut(at)
}

// DecodeConnections appends what a message of a dump of the set of a family holds. An
// element without a counter, which another program must have put there, counts none.
func DecodeConnections(f model.Family, list []ConnectionCount, data []byte) ([]ConnectionCount, error) {
	b, err := body(data)
	if err != nil {
		return list, err
	}
	var d decoder
	d.listed(b, func(element []byte) {
		if c, ok := d.counted(f, element); ok {
			list = append(list, c)
		}
	})
	if d.err != nil {
		return list, fmt.Errorf("decode elements of %s: %w", SetID{Family: f, Kind: SetConnections}.Name(), d.err)
	}
	return list, nil
}

// counted reads one element; false if it could not.
func (d *decoder) counted(f model.Family, b []byte) (c ConnectionCount, ok bool) {
	c.Asked.Family = f
	keys := 0
	d.nested(b, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			d.nested(value, func(_ uint16, value []byte) {
				d.countKey(&c, value)
				keys++
			})
		case unix.NFTA_SET_ELEM_EXPR:
			d.counter(&c.Connections, value)
		case attrExpressions:
			d.nested(value, func(_ uint16, value []byte) { d.counter(&c.Connections, value) })
		}
	})
	return c, d.err == nil && keys == 1
}

// attrExpressions is NFTA_SET_ELEM_EXPRESSIONS, where there are several
// (include/uapi/linux/netfilter/nf_tables.h).
const attrExpressions = 11

// countKey reads a key of [SetConnections].
func (d *decoder) countKey(c *ConnectionCount, b []byte) {
	id := SetID{Family: c.Asked.Family, Kind: SetConnections}
	n := int(id.family().addrLen)
	if uint32(len(b)) != id.layout().keyLen(id.family()) {
		d.err = cmp.Or(d.err, errLayout)
		return
	}
	c.Asked.Addr, _ = netip.AddrFromSlice(b[:n]) // 4 or 16 bytes
	c.Asked.Protocol = model.Protocol(b[n])
	c.Asked.Port = binary.BigEndian.Uint16(b[n+4:])
	b = b[n+8:]
	to, _ := netip.AddrFromSlice(b[:n])
	if port := binary.BigEndian.Uint16(b[n:]); port != 0 || !to.IsUnspecified() {
		c.Endpoint = netip.AddrPortFrom(to, port)
	}
}

// counter reads how many packets a counter has; other expressions say nothing.
func (d *decoder) counter(packets *uint64, b []byte) {
	var name string
	d.nested(b, func(kind uint16, value []byte) {
		switch {
		case kind == unix.NFTA_EXPR_NAME:
			name = text(value)
		case kind == unix.NFTA_EXPR_DATA && name == "counter":
			d.nested(value, func(kind uint16, value []byte) {
				switch {
				case kind != unix.NFTA_COUNTER_PACKETS:
				case len(value) != 8:
					d.err = errors.Join(d.err, errTruncated)
				default:
					*packets = binary.BigEndian.Uint64(value)
				}
			})
		}
	})
}

// Compare orders by what was asked for, then by endpoint.
func (c ConnectionCount) Compare(o ConnectionCount) int {
	return cmp.Or(c.Asked.Compare(o.Asked), c.Endpoint.Compare(o.Endpoint))
}

// SortConnections puts what was read of one set in order. A dump of a set that grows or
// shrinks may have an element twice: the later one, which has more, counts.
func SortConnections(list []ConnectionCount) []ConnectionCount {
	slices.SortFunc(list, func(a, b ConnectionCount) int {
		return cmp.Or(a.Compare(b), cmp.Compare(b.Connections, a.Connections))
	})
	return slices.CompactFunc(list, func(a, b ConnectionCount) bool { return a.Compare(b) == 0 })
}
