package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/simulate"
)

type setName struct {
	table simulate.Table
	name  string
}

// set is a set and what was read of it.
type set struct {
	simulate.Set
	table     simulate.Table
	flags     uint32
	elements  map[string]lookupResult // of one that only transactions change
	intervals *intervals
	catchAll  *lookupResult // the element for all other keys, when it was asked for
}

// lookupResult is what was found for a key.
type lookupResult struct {
	simulate.Element
	found bool
}

// Flags of sets that the library does not have (NFT_SET_CONCAT).
const setConcat = 0x80

// isDynamic reports whether packets or time change the set.
func (s *set) isDynamic() bool { return s.flags&(unix.NFT_SET_TIMEOUT|unix.NFT_SET_EVAL) != 0 }

// hasIntervals reports whether keys are intervals by themselves, which the kernel keeps
// as their two ends.
func (s *set) hasIntervals() bool {
	return s.flags&unix.NFT_SET_INTERVAL != 0 && s.flags&setConcat == 0
}

// Set implements [simulate.Rules].
func (r *Rules) Set(t simulate.Table, name string) (*simulate.Set, error) {
	by := setName{t, name}
	if s := r.sets[by]; s != nil {
		return &s.Set, nil
	}
	s, err := r.readSet(t, name)
	if err != nil {
		return nil, fmt.Errorf("read set %s of table %s: %w", name, t, err)
	}
	s.Find = func(key []byte) (simulate.Element, bool, error) {
		a, err := r.find(s, key)
		if err != nil {
			return simulate.Element{}, false, fmt.Errorf("look into set %s of table %s: %w", name, t, err)
		}
		return a.Element, a.found, nil
	}
	r.sets[by] = s
	return &s.Set, nil
}

func (r *Rules) readSet(t simulate.Table, name string) (*set, error) {
	by, err := encode(func(enc *netlink.AttributeEncoder) {
		enc.String(unix.NFTA_SET_TABLE, t.Name)
		enc.String(unix.NFTA_SET_NAME, name)
	})
	if err != nil {
		return nil, err
	}
	s := &set{table: t, elements: map[string]lookupResult{}}
	s.Name = name
	err = r.get(unix.NFT_MSG_GETSET, 0, familyNumber(t.Family), by, func(m netlink.Message) error {
		return attributes(m, s.decode)
	})
	s.Anonymous, s.IsMap = s.flags&unix.NFT_SET_ANONYMOUS != 0, s.flags&unix.NFT_SET_MAP != 0
	return s, err
}

func (s *set) decode(ad *netlink.AttributeDecoder) {
	switch ad.Type() {
	case unix.NFTA_SET_FLAGS:
		s.flags = ad.Uint32()
	case unix.NFTA_SET_KEY_TYPE:
		s.KeyType = ad.Uint32()
	case unix.NFTA_SET_KEY_LEN:
		s.KeyLen = ad.Uint32()
	case unix.NFTA_SET_DATA_TYPE:
		s.DataType = ad.Uint32()
	}
}

// find looks for a key, if need be in the kernel.
func (r *Rules) find(s *set, key []byte) (lookupResult, error) {
	if a, ok := s.elements[string(key)]; ok {
		return a, nil
	}
	a, err := r.lookup(s, key)
	if err == nil && !a.found {
		a, err = r.findCatchAll(s)
	}
	if err == nil && !s.isDynamic() {
		s.elements[string(key)] = a
	}
	return a, err
}

func (r *Rules) lookup(s *set, key []byte) (lookupResult, error) {
	if !s.hasIntervals() {
		return r.element(s, key, 0)
	}
	if s.intervals == nil || s.isDynamic() {
		list, err := r.readIntervals(s)
		if err != nil {
			return lookupResult{}, err
		}
		s.intervals = list
	}
	return s.intervals.find(key), nil
}

// findCatchAll is the element for all keys that have none, which a set may have since Linux
// 5.13.
func (r *Rules) findCatchAll(s *set) (lookupResult, error) {
	if s.catchAll != nil && !s.isDynamic() {
		return *s.catchAll, nil
	}
	a, err := r.element(s, nil, elementCatchAll)
	if errors.Is(err, unix.EINVAL) {
		a, err = lookupResult{}, nil // an older kernel
	}
	if err == nil {
		s.catchAll = &a
	}
	return a, err
}

// Flags and attributes of elements that the library does not have.
const (
	elementIntervalEnd = 1
	elementCatchAll    = 2
)

// element asks the kernel for the element that a key meets.
func (r *Rules) element(s *set, key []byte, flags uint32) (a lookupResult, err error) {
	by, err := encode(func(enc *netlink.AttributeEncoder) {
		s.name(enc)
		enc.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func(enc *netlink.AttributeEncoder) error {
			enc.Nested(unix.NFTA_LIST_ELEM, func(enc *netlink.AttributeEncoder) error {
				if flags != 0 {
					enc.Uint32(unix.NFTA_SET_ELEM_FLAGS, flags)
					return nil
				}
				enc.Nested(unix.NFTA_SET_ELEM_KEY, func(enc *netlink.AttributeEncoder) error {
					enc.Bytes(unix.NFTA_DATA_VALUE, key)
					return nil
				})
				return nil
			})
			return nil
		})
	})
	if err != nil {
		return a, err
	}
	err = r.get(unix.NFT_MSG_GETSETELEM, 0, familyNumber(s.table.Family), by, func(m netlink.Message) error {
		return eachElement(m, func(e element) { a = lookupResult{e.Element, true} })
	})
	if errors.Is(err, fs.ErrNotExist) {
		return lookupResult{}, nil
	}
	return a, err
}

func (s *set) name(enc *netlink.AttributeEncoder) {
	enc.String(unix.NFTA_SET_ELEM_LIST_TABLE, s.table.Name)
	enc.String(unix.NFTA_SET_ELEM_LIST_SET, s.Name)
}

// element is an element with its key.
type element struct {
	simulate.Element
	key []byte
	end bool // of an interval
}

// eachElement calls fn for each element of a message.
func eachElement(m netlink.Message, fn func(element)) error {
	var inner error
	err := attributes(m, func(ad *netlink.AttributeDecoder) {
		if ad.Type() != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			return
		}
		inner = errors.Join(inner, nested(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
			e, err := decodeElement(ad.Bytes())
			inner = errors.Join(inner, err)
			fn(e)
		}))
	})
	return errors.Join(err, inner)
}

func decodeElement(b []byte) (e element, err error) {
	outer := nested(b, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_SET_ELEM_KEY:
			err = errors.Join(err, nested(ad.Bytes(), func(ad *netlink.AttributeDecoder) { e.key = ad.Bytes() }))
		case unix.NFTA_SET_ELEM_DATA:
			err = errors.Join(err, nested(ad.Bytes(), func(ad *netlink.AttributeDecoder) { err = errors.Join(err, e.decodeData(ad)) }))
		case unix.NFTA_SET_ELEM_FLAGS:
			e.end = ad.Uint32()&elementIntervalEnd != 0
		case unix.NFTA_SET_ELEM_USERDATA:
			e.Comment = commentIn(ad.Bytes())
		case unix.NFTA_SET_ELEM_EXPIRATION:
			e.Expires = time.Duration(ad.Uint64()) * time.Millisecond
		}
	})
	return e, errors.Join(outer, err)
}

func (e *element) decodeData(ad *netlink.AttributeDecoder) error {
	switch ad.Type() {
	case unix.NFTA_DATA_VALUE:
		e.Data = ad.Bytes()
	case unix.NFTA_DATA_VERDICT:
		e.Verdict = &expr.Verdict{}
		return decodeVerdict(e.Verdict, ad.Bytes())
	}
	return nil
}

func decodeVerdict(v *expr.Verdict, b []byte) error {
	return nested(b, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_VERDICT_CODE:
			v.Kind = expr.VerdictKind(int32(ad.Uint32()))
		case unix.NFTA_VERDICT_CHAIN:
			v.Chain = ad.String()
		}
	})
}

// commentIn finds the comment in an element's userdata: type, length, text.
func commentIn(b []byte) string {
	for len(b) >= 2 {
		kind, n := b[0], int(b[1])
		if len(b) < 2+n {
			return ""
		}
		if kind == 0 && n > 0 {
			return string(b[2 : 2+n-1])
		}
		b = b[2+n:]
	}
	return ""
}
