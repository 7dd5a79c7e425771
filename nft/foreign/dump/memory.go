package dump

import (
	"fmt"
	"sort"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/nft/wire"
)

// Memory is a rule set of ours that no kernel holds. Chains and rules are decoded from the
// messages that would program them, so that a rule means the same here and in the kernel.
// Elements are built when they are looked up. Sets that packets fill are empty.
type Memory struct {
	base  []simulate.BaseChain
	rules map[simulate.Chain][]simulate.Rule
	sets  map[setName]*set
	byID  map[uint32]*set // by the number within the transaction
}

// NewMemory returns the rule set of a state.
func NewMemory(r *nft.Ruleset) (*Memory, error) {
	m := &Memory{
		rules: map[simulate.Chain][]simulate.Rule{}, sets: map[setName]*set{}, byID: map[uint32]*set{},
	}
	var objects nft.Batch
	var filled []elementList
	for _, op := range r.Repair(nft.Tables{}) {
		switch op := op.(type) {
		case nft.AddElements:
			filled = append(filled, elementList{op.Set, len(op.Elements), func(i int) nft.Element { return op.Elements[i] }})
		case nft.AddFrontends:
			at := op.At
			if op.Set.Kind == nft.SetStickyEndpoints { // the only one that is not sorted
				list := op.Elements()
				at = func(i int) nft.Element { return list[i] }
			}
			filled = append(filled, elementList{op.Set, op.Len(), at})
		default:
			objects = append(objects, op)
		}
	}
	if err := m.decode(objects); err != nil {
		return nil, fmt.Errorf("decode our own rules: %w", err)
	}
	for _, list := range filled {
		t := simulate.Table{Family: nft.FamilyName(list.id.Family), Name: nft.TableName}
		if s := m.sets[setName{t, list.id.Name()}]; s != nil {
			s.Find = list.find
		}
	}
	return m, nil
}

// decode decodes the messages of a batch without elements of named sets.
func (m *Memory) decode(b nft.Batch) error {
	encoded, err := wire.Encode(b)
	if err != nil {
		return err
	}
	var d attr.Decoder
	for h, data := range d.Messages(encoded.Bytes) {
		if h.Type>>8 != unix.NFNL_SUBSYS_NFTABLES {
			continue // the begin or end of the transaction
		}
		msg := message{data[0], d.Body(data)}
		switch h.Type & 0xff {
		case unix.NFT_MSG_NEWCHAIN:
			if c := decodeChain(&d, msg); seesIP(c) {
				m.base = append(m.base, c)
			}
		case unix.NFT_MSG_NEWSET:
			m.addSet(&d, msg)
		case unix.NFT_MSG_NEWSETELEM:
			m.addElements(&d, msg)
		case unix.NFT_MSG_NEWRULE:
			m.addRule(&d, msg)
		}
	}
	return d.Err()
}

func (m *Memory) addSet(d *attr.Decoder, msg message) {
	s := &set{
		table:    simulate.Table{Family: families[msg.family], Name: nft.TableName},
		elements: map[string]simulate.Element{},
	}
	s.decode(d, msg)
	s.Name = attr.String(d.Find(msg.attributes, unix.NFTA_SET_NAME))
	id := d.Uint32(d.Find(msg.attributes, unix.NFTA_SET_ID))
	if s.Anonymous { // all have the same name until the kernel numbers them
		s.Name = fmt.Sprintf("%s %d", s.Name, id)
	}
	s.Find = s.findRead
	m.byID[id], m.sets[setName{s.table, s.Name}] = s, s
}

func (m *Memory) addElements(d *attr.Decoder, msg message) {
	s := m.byID[d.Uint32(d.Find(msg.attributes, unix.NFTA_SET_ELEM_LIST_SET_ID))]
	eachElement(d, msg, func(e element) { s.elements[string(e.key)] = e.Element })
}

func (m *Memory) addRule(d *attr.Decoder, msg message) {
	r := decodeRule(d, msg)
	for _, e := range r.Expressions {
		if l, is := e.(*expr.Lookup); is && m.byID[l.SetID] != nil {
			l.SetName = m.byID[l.SetID].Name
		}
	}
	r.Handle = uint64(len(m.rules[r.Chain]) + 1)
	m.rules[r.Chain] = append(m.rules[r.Chain], r.Rule)
}

// BaseChains implements [simulate.Rules].
func (m *Memory) BaseChains(f model.Family) ([]simulate.BaseChain, error) {
	return chainsOf(f, m.base), nil
}

// Rules implements [simulate.Rules].
func (m *Memory) Rules(c simulate.Chain) ([]simulate.Rule, error) { return m.rules[c], nil }

// Set implements [simulate.Rules].
func (m *Memory) Set(t simulate.Table, name string) (*simulate.Set, error) {
	s := m.sets[setName{t, name}]
	if s == nil {
		return nil, fmt.Errorf("set %s of table %s: %w", name, t, unix.ENOENT)
	}
	return &s.Set, nil
}

// An elementList is the elements of a set, sorted by key.
type elementList struct {
	id  nft.SetID
	len int
	at  func(int) nft.Element
}

func (l elementList) find(key []byte) (simulate.Element, bool, error) {
	k, ok := wire.DecodeKey(l.id, key)
	if !ok {
		return simulate.Element{}, false, nil
	}
	if l.id.Layout().Interval {
		return simulate.Element{}, l.contains(k), nil
	}
	i := sort.Search(l.len, func(i int) bool { return nft.CompareKeys(l.at(i).Key, k) >= 0 })
	if i == l.len {
		return simulate.Element{}, false, nil
	}
	found := l.at(i)
	if nft.CompareKeys(found.Key, k) != 0 {
		return simulate.Element{}, false, nil
	}
	var d attr.Decoder
	e := decodeElement(&d, wire.AppendElement(nil, l.id, &found))
	return e.Element, true, d.Err()
}

// contains reports whether an address is in one of few prefixes.
func (l elementList) contains(k nft.Key) bool {
	for i := range l.len {
		if e := l.at(i); e.Key.Prefix().Contains(k.Addr) {
			return true
		}
	}
	return false
}
