package simulate

import (
	"time"

	"github.com/google/nftables/expr"
)

// find looks into a set for the key that begins at a register, with what the packet
// itself has entered before.
func (w *way) find(name string, register uint32) (set *Set, key []byte, e Element, found bool, err error) {
	set, err = w.set(w.place.chain.Table, name)
	if err != nil {
		return nil, nil, e, false, err
	}
	v, err := w.regs.read(register, int(set.KeyLen))
	if err != nil {
		return set, nil, e, false, err
	}
	if !v.certain() {
		return set, nil, e, false, unsaidError("what is looked up in " + set.Name + " is not known here")
	}
	key = append(key, v.bytes...)
	if e, found = w.entered[entry{w.place.chain.Table, name, string(key)}]; found {
		return set, key, e, true, nil
	}
	e, found, err = w.element(w.place.chain.Table, set, key)
	return set, key, e, found, err
}

// entry is what a packet entered into a set on its way.
type entry struct {
	table    Table
	set, key string
}

func (w *way) lookup(e *expr.Lookup) (verdict, error) {
	set, key, el, found, err := w.find(e.SetName, e.SourceRegister)
	if err != nil {
		return breaks, err
	}
	w.looked(set, key, el, found)
	switch {
	case found == e.Invert:
		return breaks, nil
	case !e.IsDestRegSet:
		return goesOn, nil
	case el.Verdict != nil:
		return verdict{el.Verdict.Kind, el.Verdict.Chain}, nil
	}
	return goesOn, w.regs.load(e.DestRegister, known(el.Data))
}

// dynsetDelete is NFT_DYNSET_OP_DELETE.
const dynsetDelete = 2

// dynset enters the packet into a set, or makes its element last longer, which
// leaves what that holds.
func (w *way) dynset(e *expr.Dynset) (verdict, error) {
	set, err := w.set(w.place.chain.Table, e.SetName)
	if err != nil {
		return breaks, err
	}
	v, err := w.regs.read(e.SrcRegKey, int(set.KeyLen))
	if err != nil {
		return breaks, err
	}
	if !set.IsMap || !v.certain() || e.Operation == dynsetDelete {
		if e.Invert || len(e.Exprs) > 0 && w.limits(e) {
			return breaks, unsaidError("expression dynset with a limit")
		}
		return goesOn, nil
	}
	_, key, el, found, err := w.find(e.SetName, e.SrcRegKey)
	if err != nil {
		return breaks, err
	}
	w.remembered(set, el, found, e.Timeout)
	if found {
		return matches(!e.Invert), nil
	}
	data, err := w.regs.read(e.SrcRegData, dataLen(set))
	if err != nil {
		return breaks, err
	}
	w.entered[entry{w.place.chain.Table, e.SetName, string(key)}] = Element{
		Data: append([]byte(nil), data.bytes...), Expires: max(e.Timeout, time.Millisecond),
	}
	return matches(!e.Invert), nil
}

// limits reports whether expressions of the element may have a say.
func (w *way) limits(e *expr.Dynset) bool {
	for _, x := range e.Exprs {
		if _, counts := x.(*expr.Counter); !counts {
			return true
		}
	}
	return false
}

// dataLen is how long the data of a map is that packets fill.
func dataLen(set *Set) int {
	n := 0
	for _, k := range kindsOf(set.DataType) {
		n += k.length()
	}
	return n
}
