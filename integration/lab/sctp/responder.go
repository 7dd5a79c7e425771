package sctp

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	stdsync "sync"
)

// responder is the server's side of the protocol for one local address, without I/O:
// packet in, packet out. Its zero value has no open port.
type responder struct {
	mu           stdsync.Mutex
	ports        map[uint16]handler // nil for a port that was closed
	associations map[flow]*association
}

// handler answers a message of a peer. It is not called concurrently.
type handler = func(peer netip.AddrPort, question []byte) (answer []byte)

// flow identifies the packets of an association.
type flow struct {
	peer netip.AddrPort
	port uint16
}

// association is one from the INIT of a client on.
type association struct {
	tag, tsn uint32
	peerTag  uint32
	sequence uint16
}

// Open makes handle answer messages to port, instead of an earlier handler.
func (r *responder) Open(port uint16, handle handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ports == nil {
		r.ports = make(map[uint16]handler)
		r.associations = make(map[flow]*association)
	}
	r.ports[port] = handle
}

// Refuse closes a port: new associations are refused, and existing ones are aborted
// when their client sends something.
func (r *responder) Refuse(port uint16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ports[port] != nil {
		r.ports[port] = nil
		maps.DeleteFunc(r.associations, func(f flow, _ *association) bool { return f.port == port })
	}
}

// answer returns the packet to send to the sender of p; without chunks if there is nothing to
// send. A raw socket receives the packets of clients as well, which get no answer.
func (r *responder) answer(from netip.Addr, p packet) (out packet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := flow{netip.AddrPortFrom(from, p.source), p.destination}
	out = packet{source: p.destination, destination: p.source}
	for _, c := range p.chunks {
		a := r.associations[f]
		known := a != nil && a.tag == p.tag
		switch {
		case c.kind == typeInit && c.word(0) != 0:
			r.initiate(f, c.word(0), &out)
		case c.kind == typeCookieEcho && known:
			out.tag = a.peerTag
			out.chunks = append(out.chunks, chunk{kind: typeCookieAck})
		case c.kind == typeData && a == nil:
			r.outOfTheBlue(f, p.tag, &out)
		case c.kind == typeData && known && len(c.value) >= dataHeaderSize:
			out.tag = a.peerTag
			sack := chunk{kind: typeSack, value: words(c.word(0), window, 0)} // no gaps, no duplicates
			message := r.ports[f.port](f.peer, c.value[dataHeaderSize:])
			out.chunks = append(out.chunks, sack, data(a.tsn, a.sequence, message))
			a.tsn++
			a.sequence++
		case c.kind == typeAbort && known:
			delete(r.associations, f)
		}
	}
	return out
}

// initiate answers an INIT; to a closed port with ABORT (RFC 9260, 8.4, 3).
func (r *responder) initiate(f flow, peerTag uint32, out *packet) {
	out.tag = peerTag
	if r.ports[f.port] == nil {
		out.chunks = append(out.chunks, chunk{kind: typeAbort})
		return
	}
	a := &association{tag: newTag(), tsn: rand.Uint32(), peerTag: peerTag}
	r.associations[f] = a
	out.chunks = append(out.chunks, chunk{
		kind: typeInitAck, value: words(a.tag, window, oneStream, a.tsn, parameterCookie, a.tag),
	})
}

// outOfTheBlue aborts an unknown association (RFC 9260, 8.4, 8). The only tag it can
// use is the sender's own.
func (r *responder) outOfTheBlue(f flow, tag uint32, out *packet) {
	if _, known := r.ports[f.port]; known { // otherwise it is the port of a client
		out.tag = tag
		out.chunks = append(out.chunks, chunk{kind: typeAbort, flags: flagReflected})
	}
}

// newTag returns a random tag other than 0, which is reserved.
func newTag() uint32 { return rand.Uint32N(1<<32-1) + 1 }
