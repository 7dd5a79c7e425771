package dump

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
	"kube-vmap/nft/foreign/simulate"
)

// A set is a set and what was read of it.
type set struct {
	simulate.Set
	table     simulate.Table
	flags     uint32
	intervals intervals
	catchAll  *simulate.Element // for all keys that have none, or nil
	read      bool              // all of them, or catchAll
}

const setConcat = 0x80

// hasIntervals reports whether whole keys are intervals, which the kernel keeps as two
// elements each.
func (s *set) hasIntervals() bool {
	return s.flags&unix.NFT_SET_INTERVAL != 0 && s.flags&setConcat == 0
}

func (r *Reader) readSet(t simulate.Table, name string) (*set, error) {
	s := &set{table: t}
	s.Name = name
	err := r.get(unix.NFT_MSG_GETSET, 0, FamilyNumber(t.Family), func(e *attr.Encoder) {
		e.String(unix.NFTA_SET_TABLE, t.Name)
		e.String(unix.NFTA_SET_NAME, name)
	}, s.decode)
	return s, err
}

func (s *set) decode(d *attr.Decoder, m message) {
	for kind, value := range d.Attributes(m.attributes) {
		switch kind {
		case unix.NFTA_SET_FLAGS:
			s.flags = d.Uint32(value)
		case unix.NFTA_SET_KEY_TYPE:
			s.KeyType = d.Uint32(value)
		case unix.NFTA_SET_KEY_LEN:
			s.KeyLen = d.Uint32(value)
		case unix.NFTA_SET_DATA_TYPE:
			s.DataType = d.Uint32(value)
		case unix.NFTA_SET_TIMEOUT:
			s.Timeout = time.Duration(d.Uint64(value)) * time.Millisecond
		}
	}
	s.Anonymous, s.IsMap = s.flags&unix.NFT_SET_ANONYMOUS != 0, s.flags&unix.NFT_SET_MAP != 0
}

// lookup returns the element of a key, nil if there is none.
func (r *Reader) lookup(s *set, key []byte) (found *simulate.Element, err error) {
	if s.hasIntervals() {
		if !s.read {
			err = r.readElements(s)
		}
		return cmp.Or(s.intervals.find(key), s.catchAll), err
	}
	found, err = r.element(s, func(e *attr.Encoder) {
		e.Nested(unix.NFTA_SET_ELEM_KEY, func() { e.Data(unix.NFTA_DATA_VALUE, key) })
	})
	if err != nil || found != nil || s.read {
		return cmp.Or(found, s.catchAll), err
	}
	// A set may have an element for all keys that have none.
	s.catchAll, err = r.element(s, func(e *attr.Encoder) { e.Uint32(unix.NFTA_SET_ELEM_FLAGS, elementCatchAll) })
	s.read = err == nil
	return s.catchAll, err
}

// readElements reads a set of intervals.
func (r *Reader) readElements(s *set) error {
	s.intervals, s.catchAll = nil, nil
	err := r.get(unix.NFT_MSG_GETSETELEM, netlink.Dump, FamilyNumber(s.table.Family), s.encodeName,
		func(d *attr.Decoder, m message) {
			eachElement(d, m, func(e element) {
				if e.key == nil {
					s.catchAll = &e.Element
				} else {
					s.intervals = append(s.intervals, e)
				}
			})
		})
	slices.SortFunc(s.intervals, func(a, b element) int {
		if c := bytes.Compare(a.key, b.key); c != 0 || a.end == b.end {
			return c
		}
		if a.end {
			return -1
		}
		return 1
	})
	s.read = err == nil
	return err
}

// Flags of elements.
const (
	elementIntervalEnd = 1 // NFT_SET_ELEM_INTERVAL_END
	elementCatchAll    = 2 // NFT_SET_ELEM_CATCHALL
)

// element asks the kernel for an element, by the attributes that which appends; nil if there is
// none.
func (r *Reader) element(s *set, which func(*attr.Encoder)) (found *simulate.Element, err error) {
	err = r.get(unix.NFT_MSG_GETSETELEM, 0, FamilyNumber(s.table.Family), func(e *attr.Encoder) {
		s.encodeName(e)
		e.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func() {
			e.Nested(unix.NFTA_LIST_ELEM, func() { which(e) })
		})
	}, func(d *attr.Decoder, m message) {
		eachElement(d, m, func(e element) { found = &e.Element })
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}

func (s *set) encodeName(e *attr.Encoder) {
	e.String(unix.NFTA_SET_ELEM_LIST_TABLE, s.table.Name)
	e.String(unix.NFTA_SET_ELEM_LIST_SET, s.Name)
}

type element struct {
	simulate.Element
	key []byte
	end bool // of an interval
}

func eachElement(d *attr.Decoder, m message, fn func(element)) {
	for _, e := range d.Attributes(d.Find(m.attributes, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
		fn(decodeElement(d, e))
	}
}

func decodeElement(d *attr.Decoder, b []byte) (e element) {
	for kind, value := range d.Attributes(b) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			e.key = d.Find(value, unix.NFTA_DATA_VALUE)
		case unix.NFTA_SET_ELEM_DATA:
			e.Data = d.Find(value, unix.NFTA_DATA_VALUE)
			if verdict := d.Find(value, unix.NFTA_DATA_VERDICT); verdict != nil {
				e.Verdict = simulate.DecodeVerdict(d, verdict)
			}
		case unix.NFTA_SET_ELEM_FLAGS:
			e.end = d.Uint32(value)&elementIntervalEnd != 0
		case unix.NFTA_SET_ELEM_USERDATA:
			e.Comment = attr.String(attr.Userdata(value, attr.CommentTag))
		case unix.NFTA_SET_ELEM_EXPR:
			e.Decides = e.Decides || mayDecide(d, value)
		case elementExpressions:
			for _, expression := range d.Attributes(value) {
				e.Decides = e.Decides || mayDecide(d, expression)
			}
		case unix.NFTA_SET_ELEM_EXPIRATION:
			e.Expires = time.Duration(d.Uint64(value)) * time.Millisecond
		}
	}
	return e
}

const elementExpressions = 11

// mayDecide reports whether an expression of an element does more than count.
func mayDecide(d *attr.Decoder, expression []byte) bool {
	name := attr.String(d.Find(expression, unix.NFTA_EXPR_NAME))
	return name != "counter" && name != "last"
}

// intervals are the bounds of intervals, sorted; where one ends and another begins, the end
// is first.
type intervals []element

// find returns the interval that a key is in: the last bound at the key or before it must be
// a beginning.
func (list intervals) find(key []byte) *simulate.Element {
	i, _ := slices.BinarySearchFunc(list, key, func(e element, key []byte) int {
		if bytes.Compare(e.key, key) <= 0 {
			return -1
		}
		return 1
	})
	if i == 0 || list[i-1].end {
		return nil
	}
	return &list[i-1].Element
}
