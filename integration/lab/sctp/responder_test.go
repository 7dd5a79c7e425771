package sctp

import (
	"net/netip"
	"testing"
)

var client = netip.MustParseAddrPort("10.244.1.2:40000")

func echo(peer netip.AddrPort, question []byte) []byte {
	return []byte(peer.String() + " asked " + string(question))
}

// toServer returns a packet from the client to port 80.
func toServer(tag uint32, chunks ...Chunk) Packet {
	return Packet{Source: client.Port(), Destination: 80, Tag: tag, Chunks: chunks}
}

// ask sends a packet to r and checks that the answer is addressed to the client
// and holds these chunks.
func ask(t *testing.T, r *Responder, p Packet, types ...ChunkType) Packet {
	t.Helper()
	out, ok := r.Answer(client.Addr(), p)
	if ok != (len(types) > 0) || len(out.Chunks) != len(types) {
		t.Fatalf("got %+v, want chunks %v", out, types)
	}
	for i, c := range out.Chunks {
		if c.Type != types[i] {
			t.Fatalf("got %+v, want chunks %v", out, types)
		}
	}
	if ok && (out.Source != 80 || out.Destination != client.Port() || out.Tag != 7) {
		t.Fatalf("addressed to another client: %+v", out)
	}
	return out
}

// associate completes the handshake and asks the first question.
func associate(t *testing.T, r *Responder) (tag uint32) {
	t.Helper()
	out := ask(t, r, toServer(0, Init{Tag: 7, TSN: 100}.Chunk(TypeInit)), TypeInitAck)
	init, err := DecodeInit(out.Chunks[0])
	if err != nil || init.Tag == 0 {
		t.Fatalf("%+v, %v", init, err)
	}
	hello := Data{TSN: 100, Payload: []byte("hello")}.Chunk()
	out = ask(t, r, toServer(init.Tag, Chunk{Type: TypeCookieEcho, Value: init.Cookie}, hello),
		TypeCookieAck, TypeSack, TypeData)
	data, err := DecodeData(out.Chunks[2])
	if err != nil || data.TSN != init.TSN || string(data.Payload) != "10.244.1.2:40000 asked hello" {
		t.Fatalf("%+v, %v", data, err)
	}
	return init.Tag
}

func TestResponderAnswersUntilAborted(t *testing.T) {
	var r Responder
	r.Open(80, echo)
	tag := associate(t, &r)
	again := toServer(tag, Data{TSN: 101, Payload: []byte("again")}.Chunk())
	out := ask(t, &r, again, TypeSack, TypeData)
	if data, _ := DecodeData(out.Chunks[1]); data.Sequence != 1 {
		t.Errorf("second answer has sequence %d", data.Sequence)
	}
	ask(t, &r, toServer(tag, userAbort()))
	if len(r.associations) != 0 {
		t.Errorf("left: %v", r.associations)
	}
}

func TestResponderAbortsUnknownAssociations(t *testing.T) {
	var r Responder
	r.Open(80, echo)
	tag := associate(t, &r)
	r.Refuse(80)
	out, _ := r.Answer(client.Addr(), toServer(tag, Data{}.Chunk()))
	if len(out.Chunks) != 1 || out.Chunks[0].Type != TypeAbort || out.Chunks[0].Flags != 1 || out.Tag != tag {
		t.Errorf("got %+v", out)
	}
	toClient := Packet{Source: 80, Destination: client.Port(), Tag: tag, Chunks: []Chunk{Data{}.Chunk()}}
	if out, ok := r.Answer(client.Addr(), toClient); ok {
		t.Errorf("answered a packet to a client: %+v", out)
	}
}

func TestResponderRefusesClosedPort(t *testing.T) {
	var r Responder
	initiate := toServer(0, Init{Tag: 7}.Chunk(TypeInit))
	ask(t, &r, initiate, TypeAbort)
	r.Open(80, echo)
	ask(t, &r, initiate, TypeInitAck)
	r.Refuse(80)
	ask(t, &r, initiate, TypeAbort)
}

func TestResponderIgnoresPacketsOfOthers(t *testing.T) {
	var r Responder
	r.Open(80, echo)
	tag := associate(t, &r)
	for name, p := range map[string]Packet{
		"question with a wrong tag": toServer(tag+1, Data{}.Chunk()),
		"abort with a wrong tag":    toServer(tag+1, userAbort()),
		"cookie with a wrong tag":   toServer(tag, Chunk{Type: TypeCookieEcho, Value: cookie{tag: tag + 1}.encode()}),
		"cookie of another server":  toServer(tag, Chunk{Type: TypeCookieEcho, Value: []byte("another server")}),
		"answer to a client":        toServer(tag, Init{Tag: 7}.Chunk(TypeInitAck)),
		"INIT without a tag":        toServer(0, Init{}.Chunk(TypeInit)),
	} {
		if out, ok := r.Answer(client.Addr(), p); ok {
			t.Errorf("%s: answered %+v", name, out)
		}
	}
	ask(t, &r, toServer(tag, Data{TSN: 101}.Chunk()), TypeSack, TypeData)
}
