package sctp

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	stdsync "sync"
)

// Handler answers a message of a peer. It is not called concurrently.
type Handler func(peer netip.AddrPort, question []byte) (answer []byte)

// Responder is the server's side of the protocol for one local address, without I/O:
// packet in, packet out. Its zero value has no open port. All methods may be called
// concurrently.
type Responder struct {
	mu           stdsync.Mutex
	ports        map[uint16]Handler // nil for a port that was closed
	associations map[flow]*association
}

// flow identifies the packets of an association.
type flow struct {
	peer netip.AddrPort
	port uint16
}

type association struct {
	cookie
	sequence uint16
}

// Open makes handle answer messages to port, instead of an earlier handler.
func (r *Responder) Open(port uint16, handle Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ports == nil {
		r.ports = make(map[uint16]Handler)
		r.associations = make(map[flow]*association)
	}
	r.ports[port] = handle
}

// Refuse closes a port: new associations are refused, and existing ones are aborted
// when their client sends something.
func (r *Responder) Refuse(port uint16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ports[port] != nil {
		r.ports[port] = nil
		maps.DeleteFunc(r.associations, func(f flow, _ *association) bool { return f.port == port })
	}
}

// Answer returns the packet to send to the sender of p, if any. Packets that are not
// for a server get no answer: a raw socket receives the packets of clients as well.
func (r *Responder) Answer(from netip.Addr, p Packet) (Packet, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := flow{netip.AddrPortFrom(from, p.Source), p.Destination}
	out := Packet{Source: p.Destination, Destination: p.Source}
	for _, c := range p.Chunks {
		switch c.Type {
		case TypeInit:
			r.initiate(f, c, &out)
		case TypeCookieEcho:
			r.establish(f, p.Tag, c, &out)
		case TypeData:
			r.data(f, p.Tag, c, &out)
		case TypeAbort:
			r.abort(f, p.Tag)
		}
	}
	return out, len(out.Chunks) > 0
}

// initiate answers an INIT; to a closed port with ABORT (RFC 9260, 8.4, 3).
func (r *Responder) initiate(f flow, c Chunk, out *Packet) {
	init, err := DecodeInit(c)
	if err != nil || init.Tag == 0 {
		return
	}
	out.Tag = init.Tag
	if r.ports[f.port] == nil {
		out.Chunks = append(out.Chunks, Chunk{Type: TypeAbort})
		return
	}
	ours := Init{Tag: newTag(), TSN: rand.Uint32()}
	ours.Cookie = cookie{ours.Tag, ours.TSN, init.Tag, init.TSN}.encode()
	out.Chunks = append(out.Chunks, ours.Chunk(TypeInitAck))
}

func (r *Responder) establish(f flow, tag uint32, c Chunk, out *Packet) {
	k, err := decodeCookie(c.Value)
	if err != nil || k.tag != tag || r.ports[f.port] == nil {
		return
	}
	r.associations[f] = &association{cookie: k}
	out.Tag = k.peerTag
	out.Chunks = append(out.Chunks, Chunk{Type: TypeCookieAck})
}

func (r *Responder) data(f flow, tag uint32, c Chunk, out *Packet) {
	question, err := DecodeData(c)
	if err != nil {
		return
	}
	a := r.associations[f]
	if a == nil {
		r.outOfTheBlue(f, tag, out)
		return
	}
	if a.tag != tag {
		return
	}
	out.Tag = a.peerTag
	answer := Data{TSN: a.tsn, Sequence: a.sequence, Payload: r.ports[f.port](f.peer, question.Payload)}
	a.tsn++
	a.sequence++
	out.Chunks = append(out.Chunks, sack(question.TSN), answer.Chunk())
}

// outOfTheBlue aborts an unknown association (RFC 9260, 8.4, 8). The only tag it can
// use is the sender's own.
func (r *Responder) outOfTheBlue(f flow, tag uint32, out *Packet) {
	if _, known := r.ports[f.port]; known { // otherwise it is the port of a client
		out.Tag = tag
		out.Chunks = append(out.Chunks, Chunk{Type: TypeAbort, Flags: flagReflected})
	}
}

func (r *Responder) abort(f flow, tag uint32) {
	if a := r.associations[f]; a != nil && a.tag == tag {
		delete(r.associations, f)
	}
}

// newTag returns a random tag other than 0, which is reserved.
func newTag() uint32 { return rand.Uint32N(1<<32-1) + 1 }
