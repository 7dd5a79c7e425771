package simulate

import (
	"encoding/binary"
	"errors"
	"io/fs"

	"kube-vmap/nft"
)

// identify finds the Service of the packet's destination if no walk has met it: because the
// packet was dropped before, or an element is missing.
func (m *sourceCache) identify(r *Result) error {
	if r.Service != "" {
		return nil
	}
	t := Table{Family: nft.FamilyName(r.Packet.Family()), Name: tableName}
	at, port := frontendKeys(r.Packet)
	err := m.serviceComment(r, t, at, nft.SetServices, nft.SetNoEndpointServices)
	if err != nil || r.Service != "" {
		return err
	}
	if _, served, err := m.peek(t, nft.SetNodeIPs, r.Packet.To.Addr().AsSlice()); !served || err != nil {
		return err
	}
	return m.serviceComment(r, t, port, nft.SetNodePorts, nft.SetNoEndpointNodePorts)
}

// serviceComment takes the name of the Service from the first map that has the key.
func (m *sourceCache) serviceComment(r *Result, t Table, key []byte, maps ...nft.SetKind) error {
	for _, kind := range maps {
		e, _, err := m.peek(t, kind, key)
		if err != nil {
			return err
		}
		if e.Comment == "" {
			continue
		}
		r.Service = e.Comment
		if e.Verdict != nil && kind != nft.SetNoEndpointServices {
			r.Kind = frontendKind(r.Packet.Family(), e.Verdict.Chain)
		}
		return nil
	}
	return nil
}

// peek looks up a key in a set that may be missing, or have another type.
func (m *sourceCache) peek(t Table, kind nft.SetKind, key []byte) (Element, bool, error) {
	s, err := m.set(t, nft.SetID{Kind: kind}.Name())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Element{}, false, nil
	case err != nil:
		return Element{}, false, err
	case int(s.KeyLen) != len(key):
		return Element{}, false, nil
	}
	return m.element(t, s, key)
}

// frontendKeys returns the packet's key in maps of addresses and ports, and in those of
// node ports.
func frontendKeys(p Packet) (at, port []byte) {
	port = append(port, byte(p.Protocol), 0, 0, 0)
	port = binary.BigEndian.AppendUint16(port, p.To.Port())
	port = append(port, 0, 0)
	return append(p.To.Addr().AsSlice(), port...), port
}
