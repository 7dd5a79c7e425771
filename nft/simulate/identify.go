package simulate

import (
	"encoding/binary"
	"errors"
	"io/fs"

	"kube-vmap/nft"
)

// identify finds out whose address and port were asked for where the packet did not
// come so far as to meet it: because it was dropped before, or something is missing.
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

// serviceComment takes the name of the Service from whichever of the maps has the key.
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
			r.Kind = frontendKind(e.Verdict.Chain)
		}
		return nil
	}
	return nil
}

// peek looks into a set that may be missing, or of another shape.
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

// frontendKeys are the packet's keys in maps of addresses and ports, and in those of node
// ports.
func frontendKeys(p Packet) (at, port []byte) {
	port = append(port, byte(p.Protocol), 0, 0, 0)
	port = binary.BigEndian.AppendUint16(port, p.To.Port())
	port = append(port, 0, 0)
	return append(p.To.Addr().AsSlice(), port...), port
}
