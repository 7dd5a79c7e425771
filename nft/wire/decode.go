package wire

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
)

// decoder reads attributes and keeps the first error.
type decoder struct{ attr.Decoder }

// Decode adds to the tables the content of one message of a dump: a table of ours, or an object
// in one. Messages about other tables change nothing. kind is the type of the message within
// nf_tables, data the bytes after the netlink header.
func Decode(t *nft.Tables, f model.Family, kind uint16, data []byte) error {
	var d decoder
	b := d.Body(data)
	switch kind {
	case unix.NFT_MSG_NEWTABLE:
		d.table(t, f, b)
	case unix.NFT_MSG_NEWCHAIN:
		d.chain(t, f, b)
	case unix.NFT_MSG_NEWRULE:
		d.rule(t, f, b)
	case unix.NFT_MSG_NEWSET:
		d.set(t, f, b)
	case unix.NFT_MSG_NEWOBJ:
		if c, _, ours := d.ownCounter(b); ours {
			tableOf(t, f).Counters[c] = true
		} else {
			d.alien(t, f, b)
		}
	case unix.NFT_MSG_NEWFLOWTABLE:
		d.alien(t, f, b)
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("decode message of type %d: %w", kind, err)
	}
	return nil
}

// tableOf is the table of the family, which is added when something of it is first read.
func tableOf(t *nft.Tables, f model.Family) *nft.Table {
	if t[f] == nil {
		t[f] = nft.NewTable()
	}
	return t[f]
}

// isOurs reports whether everything was read, of an object in one of our tables.
func (d *decoder) isOurs(table string) bool { return d.Err() == nil && table == nft.TableName() }

func (d *decoder) table(t *nft.Tables, f model.Family, b []byte) {
	var name string
	var flags, owner uint32
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_TABLE_NAME:
			name = attr.String(value)
		case unix.NFTA_TABLE_FLAGS:
			flags = d.Uint32(value)
		case attrTableOwner:
			owner = d.Uint32(value)
		}
	}
	if d.isOurs(name) {
		state := tableOf(t, f)
		state.Dormant, state.Protected, state.Owner = flags&unix.NFT_TABLE_F_DORMANT != 0, flags&tablePersists != 0, owner
	}
}

func (d *decoder) chain(t *nft.Tables, f model.Family, b []byte) {
	var table, name string
	var state nft.ChainState
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			table = attr.String(value)
		case unix.NFTA_CHAIN_NAME:
			name = attr.String(value)
		case unix.NFTA_CHAIN_TYPE:
			state.Hook.Type = attr.String(value)
		case unix.NFTA_CHAIN_POLICY:
			state.Hook.Policy = d.Uint32(value)
		case unix.NFTA_CHAIN_HOOK:
			d.hook(&state.Hook, value)
		case attrChainFlags:
			if d.Uint32(value)&chainBound != 0 {
				d.alien(t, f, b)
			}
		}
	}
	if d.isOurs(table) {
		chains := tableOf(t, f).Chains
		state.Rules = chains[name].Rules // rules may have come before
		chains[name] = state
	}
}

func (d *decoder) hook(h *nft.HookState, b []byte) {
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_HOOK_HOOKNUM:
			h.Number = d.Uint32(value)
		case unix.NFTA_HOOK_PRIORITY:
			h.Priority = int32(d.Uint32(value))
		}
	}
}

func (d *decoder) rule(t *nft.Tables, f model.Family, b []byte) {
	var table, chain string
	var fingerprint nft.Fingerprint
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_RULE_TABLE:
			table = attr.String(value)
		case unix.NFTA_RULE_CHAIN:
			chain = attr.String(value)
		case unix.NFTA_RULE_USERDATA:
			fingerprint = fingerprintIn(value)
		}
	}
	if d.isOurs(table) {
		chains := tableOf(t, f).Chains
		state := chains[chain]
		state.Rules = append(state.Rules, fingerprint)
		chains[chain] = state
	}
}

// fingerprintIn finds the fingerprint in a rule's userdata, zero in rules of other
// programs.
func fingerprintIn(userdata []byte) nft.Fingerprint {
	if b := attr.Userdata(userdata, fingerprintTag); len(b) == 8 {
		return nft.Fingerprint(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) set(t *nft.Tables, f model.Family, b []byte) {
	var table, name string
	var s nft.SetShape
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_SET_TABLE:
			table = attr.String(value)
		case unix.NFTA_SET_NAME:
			name = attr.String(value)
		default:
			d.shape(&s, kind, value)
		}
	}
	// An anonymous set is covered by the fingerprint of its rule.
	if !d.isOurs(table) || s.Flags&unix.NFT_SET_ANONYMOUS != 0 {
		return
	}
	if s.Flags&unix.NFT_SET_MAP != 0 && s.DataType == unix.NFT_DATA_VERDICT {
		s.DataLen = 0 // kernels report the length that a verdict has in their memory
	}
	tableOf(t, f).Sets[name] = nft.SetState{Shape: s}
}

// shape reads one attribute of a set's declaration.
func (d *decoder) shape(s *nft.SetShape, kind uint16, value []byte) {
	switch kind {
	case unix.NFTA_SET_FLAGS:
		s.Flags = d.Uint32(value)
	case unix.NFTA_SET_KEY_TYPE:
		s.KeyType = d.Uint32(value)
	case unix.NFTA_SET_KEY_LEN:
		s.KeyLen = d.Uint32(value)
	case unix.NFTA_SET_DATA_TYPE:
		s.DataType = d.Uint32(value)
	case unix.NFTA_SET_DATA_LEN:
		s.DataLen = d.Uint32(value)
	case unix.NFTA_SET_DESC:
		if size := d.Find(value, unix.NFTA_SET_DESC_SIZE); size != nil {
			s.Size = d.Uint32(size)
		}
	}
}

// DecodeCounter reads from a message of the kernel how many connections a counter has. It
// reports false if the message is about something else.
func DecodeCounter(data []byte) (c nft.Counter, packets uint64, ours bool, err error) {
	var d decoder
	c, packets, ours = d.ownCounter(d.Body(data))
	return c, packets, ours, d.Err()
}

// alien marks the table that a message is about, if it is ours.
func (d *decoder) alien(t *nft.Tables, f model.Family, b []byte) {
	if d.isOurs(attr.String(d.Find(b, unix.NFTA_TABLE_NAME))) { // the attribute has one number in all messages
		tableOf(t, f).Alien = true
	}
}

// ownCounter reads an object, and reports whether it is a counter of our table. The format of its
// data depends on its type, which comes before or after it.
func (d *decoder) ownCounter(b []byte) (c nft.Counter, packets uint64, ours bool) {
	var table, name string
	var objectType uint32
	var content []byte
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_OBJ_TABLE:
			table = attr.String(value)
		case unix.NFTA_OBJ_NAME:
			name = attr.String(value)
		case unix.NFTA_OBJ_TYPE:
			objectType = d.Uint32(value)
		case unix.NFTA_OBJ_DATA:
			content = value
		}
	}
	for c < nft.Counters && c.String() != name {
		c++
	}
	if !d.isOurs(table) || c == nft.Counters || objectType != unix.NFT_OBJECT_COUNTER {
		return c, 0, false
	}
	return c, d.packets(content, 0), true
}

// packets returns how many packets a counter has, or the given number if the counter does
// not say.
func (d *decoder) packets(counter []byte, otherwise uint64) uint64 {
	if b := d.Find(counter, unix.NFTA_COUNTER_PACKETS); b != nil {
		return d.Uint64(b)
	}
	return otherwise
}
